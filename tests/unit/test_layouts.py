from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix.errors import LayoutError
from matrix.layouts import place, read, read_target

BASE = {
    "architectures": ["DFlashDraftModel"],
    "model_type": "qwen3",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "vocab_size": 512,
    "rope_theta": 1000000.0,
    "dtype": "float32",
}
NEW_BASE = {key: value for key, value in BASE.items() if key != "rope_theta"} | {
    "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}
}
WRITTEN = ("flat", "nested", "nested+rope", "speculators")
FACTS = {"block_size": 8, "mask_token_id": 511, "num_target_layers": 12}

# What public checkpoints say, reduced to the keys that decide.
SAMPLES = {
    "z-lab, older": (
        {
            "hidden_size": 4096,
            "num_hidden_layers": 5,
            "num_target_layers": 36,
            "block_size": 16,
            "rope_theta": 1000000,
            "dflash_config": {"mask_token_id": 151669, "target_layer_ids": [1, 9, 17, 25, 33]},
        },
        ("nested", (1, 9, 17, 25, 33), "output", 16, 151669, 36, 5 * 4096),
    ),
    "z-lab, newer": (
        {
            "hidden_size": 2048,
            "num_hidden_layers": 6,
            "num_target_layers": 40,
            "rope_parameters": {"rope_theta": 10000000, "rope_type": "default"},
            "dflash_config": {
                "block_size": 16,
                "mask_token_id": 248077,
                "target_layer_ids": [1, 6, 11, 16, 22, 27, 32, 37],
            },
        },
        ("nested+rope", (1, 6, 11, 16, 22, 27, 32, 37), "output", 16, 248077, 40, 8 * 2048),
    ),
    "deepseek-ai": (
        {
            "hidden_size": 2560,
            "block_size": 7,
            "mask_token_id": 151669,
            "target_layer_ids": [1, 9, 17, 25, 33],
        },
        ("flat", (1, 9, 17, 25, 33), "output", 7, 151669, None, 5 * 2560),
    ),
    "RedHatAI": (
        {
            "speculators_model_type": "dflash",
            "aux_hidden_state_layer_ids": [2, 10, 18, 26, 34],
            "block_size": 8,
            "mask_token_id": 151669,
            "draft_vocab_size": 32000,
            "target_hidden_size": None,
            "transformer_layer_config": {"hidden_size": 4096, "num_hidden_layers": 5},
        },
        ("speculators", (1, 9, 17, 25, 33), "boundary", 8, 151669, None, 5 * 4096),
    ),
    "poolside, the same taps under two keys": (
        {
            "hidden_size": 2048,
            "eagle_aux_hidden_state_layer_ids": [2, 14, 26, 34, 40],
            "dflash_config": {
                "mask_token_id": 12,
                "num_target_layers": 40,
                "target_layer_ids": [1, 13, 25, 33, 39],
            },
        },
        ("nested", (1, 13, 25, 33, 39), "output", None, 12, 40, 5 * 2048),
    ),
    "Inferact, num_target_layers counts the taps": (
        {
            "target_num_hidden_layers": 93,
            "num_target_layers": 5,
            "mask_token_id": 163837,
            "target_layer_ids": [2, 23, 47, 71, 89],
        },
        ("flat", (2, 23, 47, 71, 89), "output", None, 163837, 93, None),
    ),
    "DeepSeek V4, in the target's own config": (
        {
            "hidden_size": 4096,
            "num_hidden_layers": 43,
            "dspark_block_size": 5,
            "dspark_noise_token_id": 128799,
            "dspark_target_layer_ids": [40, 41, 42],
        },
        ("in-checkpoint", (40, 41, 42), "output", 5, 128799, 43, 3 * 4096),
    ),
    "DSpark, with ids in three places": (
        {
            "architectures": ["Qwen3DSparkModel"],
            "hidden_size": 5120,
            "target_layer_ids": [5, 19, 33, 47, 61],
            "block_size": 7,
            "mask_token_id": 248070,
            "dspark_config": {"target_layer_ids": [5, 19, 33, 47, 61], "mask_token_id": 248070},
            "dflash_config": {"target_layer_ids": [5, 19, 33, 47, 61], "block_size": 7},
            "num_target_layers": 64,
        },
        ("nested", (5, 19, 33, 47, 61), "output", 7, 248070, 64, 5 * 5120),
    ),
    "DeepSeek V4.1, whose ids are what enters a layer": (
        {
            "model_type": "deepseek_v41",
            "hidden_size": 4096,
            "num_hidden_layers": 40,
            "dspark_target_layer_ids": [37, 38, 39],
        },
        ("in-checkpoint", (36, 37, 38), "boundary", None, None, 40, 3 * 4096),
    ),
    "in the text model of a multimodal checkpoint": (
        {
            "text_config": {
                "hidden_size": 64,
                "num_hidden_layers": 43,
                "dspark_target_layer_ids": [40, 41, 42],
            }
        },
        ("in-checkpoint", (40, 41, 42), "output", None, None, 43, 3 * 64),
    ),
    "EAGLE3, boundaries in its own table": (
        {
            "architectures": ["LlamaForCausalLMEagle3"],
            "hidden_size": 64,
            "eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 18, 33]},
        },
        ("eagle3", (1, 17, 32), "boundary", None, None, None, 3 * 64),
    ),
    "EAGLE3 without ids": (
        {"architectures": ["LlamaForCausalLMEagle3"], "hidden_size": 64},
        ("eagle3", None, None, None, None, None, None),
    ),
    "a DFlash draft that says nothing": (
        {"architectures": ["DFlashDraftModel"], "hidden_size": 64},
        ("flat", None, None, None, None, None, None),
    ),
    "no ids at all": (
        {"block_size": 8, "hidden_size": 64, "num_target_layers": 27, "dflash_config": {}},
        ("nested", None, None, 8, None, 27, None),
    ),
}


@pytest.mark.parametrize(("config", "said"), SAMPLES.values(), ids=SAMPLES)
def test_published_layouts_are_resolved(config, said):
    facts = read(config)
    assert said == (
        facts.layout,
        facts.ids,
        facts.semantics,
        facts.block_size,
        facts.mask_token_id,
        facts.num_target_layers,
        facts.fc_in,
    )


@given(
    layout=st.sampled_from(WRITTEN),
    base=st.sampled_from([BASE, NEW_BASE]),
    ids=st.lists(st.integers(0, 95), unique=True, min_size=1),
    block_size=st.integers(2, 32),
    mask_token_id=st.integers(0, 511),
    num_target_layers=st.integers(1, 96),
)
def test_what_is_placed_is_read_back(
    layout, base, ids, block_size, mask_token_id, num_target_layers
):
    before = copy.deepcopy(base)
    facts = read(
        place(
            base,
            layout=layout,
            target_layer_ids=ids,
            block_size=block_size,
            mask_token_id=mask_token_id,
            num_target_layers=num_target_layers,
        )
    )
    assert base == before
    assert facts.layout == layout
    assert facts.ids == tuple(ids)
    assert facts.planes == len(ids)
    assert facts.fc_in == 64 * len(ids)
    assert (facts.block_size, facts.mask_token_id) == (block_size, mask_token_id)
    assert (facts.hidden_size, facts.num_hidden_layers, facts.vocab_size) == (64, 2, 512)
    has_depth = layout != "speculators"
    assert facts.num_target_layers == (num_target_layers if has_depth else None)


@pytest.mark.parametrize("base", [BASE, NEW_BASE], ids=["rope_theta", "rope_parameters"])
@pytest.mark.parametrize("layout", WRITTEN)
def test_rope_stands_where_the_layout_has_it(layout, base):
    config = place(base, layout=layout, target_layer_ids=[1], **FACTS)
    body = config["transformer_layer_config"] if layout == "speculators" else config
    if layout == "nested+rope":
        assert "rope_theta" not in body
        assert body["rope_parameters"] == NEW_BASE["rope_parameters"]
        assert "block_size" not in body
    else:
        assert "rope_parameters" not in body
        assert body["rope_theta"] == 1000000.0


@pytest.mark.parametrize("layout", ["nested", "nested+rope"])
def test_a_scaled_rope_survives_both_ways(layout):
    yarn = {"rope_type": "yarn", "factor": 4.0}
    old = BASE | {"rope_scaling": yarn}
    new = NEW_BASE | {"rope_parameters": yarn | {"rope_theta": 1000000.0}}
    placed = [place(b, layout=layout, target_layer_ids=[1], **FACTS) for b in (old, new)]
    assert placed[0] == placed[1]
    assert (placed[0].get("rope_scaling") or placed[0]["rope_parameters"])["factor"] == 4.0


def test_speculators_files_store_boundaries():
    config = place(BASE, layout="speculators", target_layer_ids=[0, 5, 11], **FACTS)
    assert config["aux_hidden_state_layer_ids"] == [1, 6, 12]
    assert config["speculators_config"]["proposal_methods"][0]["speculative_tokens"] == 7
    assert "hidden_size" not in config
    assert "num_target_layers" not in str(config)


@pytest.mark.parametrize("layout", ["in-checkpoint", "nestled"])
def test_a_layout_without_a_file_is_refused(layout):
    with pytest.raises(LayoutError, match=f"'{layout}' can't be written; flat, nested"):
        place(BASE, layout=layout, target_layer_ids=[1], **FACTS)


def test_an_unknown_layout_lists_its_keys():
    with pytest.raises(LayoutError, match=r"no known draft config layout.*'hidden_size', 'taps'"):
        read({"taps": [1], "hidden_size": 64})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"aux_hidden_state_layer_ids": [1, 3]},
            r"dflash_config.target_layer_ids says \[1, 3\]; "
            r"aux_hidden_state_layer_ids says \[0, 2\]",
        ),
        ({"mask_token_id": 4}, "dflash_config.mask_token_id says 511; mask_token_id says 4"),
        ({"block_size": True}, "block_size is True; it should be a whole number"),
        ({"dflash_config": [1]}, r"dflash_config is \[1\]; it should be a table"),
        (
            {"dflash_config": {"target_layer_ids": ["1", 3]}},
            r"target_layer_ids is \['1', 3\]; it should be a list of whole numbers",
        ),
        (
            {"dflash_config": {"target_layer_ids": [True]}},
            r"target_layer_ids is \[True\]; it should be a list of whole numbers",
        ),
    ],
)
def test_contradictions_and_wrong_types_are_refused_with_their_keys(change, message):
    config = place(BASE, layout="nested", target_layer_ids=[1, 3], **FACTS)
    with pytest.raises(LayoutError, match=message):
        read(config | change)


def test_a_transformers_config_can_be_read_back_from_every_layout_with_a_body():
    qwen3 = pytest.importorskip("transformers").Qwen3Config
    for layout in ("flat", "nested", "nested+rope"):
        config = place(BASE, layout=layout, target_layer_ids=[1, 3], **FACTS)
        loaded = qwen3.from_dict(config).to_dict()
        assert read(loaded).ids == (1, 3)
        assert loaded["rope_parameters"]["rope_theta"] == 1000000.0


@pytest.mark.parametrize(
    ("config", "method"),
    [
        ({"dflash_config": {}}, "dflash"),
        ({"dflash_config": {"conv_kernel_size": 2}}, "dflash2"),
        ({"architectures": ["DFlash2DraftModel"], "dflash_config": {}}, "dflash2"),
        ({"architectures": ["Qwen3DSparkModel"], "target_layer_ids": [1]}, "dspark"),
        ({"target_layer_ids": [1], "markov_rank": 256}, "dspark"),
        ({"dspark_target_layer_ids": [1]}, "dspark"),
        ({"architectures": ["Eagle3LlamaForCausalLM"]}, "eagle3"),
        ({"transformer_layer_config": {}, "speculators_model_type": "dflash2"}, "dflash2"),
        ({"transformer_layer_config": {}, "speculators_model_type": "peagle"}, "eagle3"),
        ({"transformer_layer_config": {}, "speculators_model_type": "dflare"}, "dflare"),
    ],
)
def test_the_method_is_told_from_class_type_and_keys(config, method):
    assert read(config).method == method


@pytest.mark.parametrize(
    ("config", "where", "facts"),
    [
        (
            {"architectures": ["A"], "num_hidden_layers": 4, "hidden_size": 8, "vocab_size": 16},
            "",
            ("A", 4, 8, 16, 1),
        ),
        (
            {
                "architectures": ["A"],
                "text_config": {"num_hidden_layers": 4, "hidden_size": 8, "hc_mult": 4},
                "vocab_size": 16,
            },
            "text_config.",
            ("A", 4, 8, 16, 4),
        ),
        (
            {"thinker_config": {"text_config": {"n_layer": 3, "num_loops": 2, "d_model": 8}}},
            "thinker_config.text_config.",
            (None, 6, 8, None, 1),
        ),
        ({"num_hidden_layers": True, "hidden_size": -1}, "", (None, None, None, None, 1)),
    ],
)
def test_a_target_is_its_text_model(config, where, facts):
    found = read_target(config)
    assert found.where == where
    assert facts == (
        found.arch,
        found.depth,
        found.hidden_size,
        found.vocab_size,
        found.streams,
    )


def test_a_text_model_that_is_no_table_is_refused():
    with pytest.raises(LayoutError, match=r"text_config is \[1\]; it should be a table"):
        read_target({"text_config": [1]})
