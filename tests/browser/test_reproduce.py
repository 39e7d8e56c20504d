"""The line to reproduce a cell: copied in the browser, pasted into a shell, and run."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from running import cli, command, injected, rows_file


def test_the_copied_line_shows_the_same_fault(opening: Callable[..., Any], tmp_path: Path) -> None:
    """The engine is the fake one, in a real worker, and sorts the ids that it is given."""
    rows_file(tmp_path, "tiny")
    file = injected(tmp_path, "resolve=lambda ids: sorted(fake_engine.strict(ids))")
    run = ("run", "tiny", "--engine", "transformers", "--registry", "rows.toml")
    done = cli(tmp_path, *run, "--clause", "TAP-ORDER", "--inject", str(file))
    assert done.returncode == 1, done.stderr
    (report,) = tmp_path.glob("reports/*/report.html")

    with opening(report) as page:
        page.click(".grid a.fail")
        page.click("#cell button.copy")
        page.wait_for_selector("#cell button.copy:has-text('Copied')")
        line = page.evaluate("navigator.clipboard.readText()")
        label = page.inner_text("#cell .fault b")

    assert line.startswith("dflash-matrix run tiny --engine transformers --clause TAP-ORDER")
    words, env = command(tmp_path)
    script = tmp_path / "bin" / "dflash-matrix"
    script.parent.mkdir()
    script.write_text(f"#!{words[0]}\n{words[2]}\n")
    script.chmod(0o755)
    again = subprocess.run(
        ["sh", "-c", f"{line} --json --out again"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**env, "PATH": f"{script.parent}:{env['PATH']}"},
    )
    assert again.returncode == 1, again.stderr
    (red,) = [cell for cell in json.loads(again.stdout)["cells"] if cell["outcome"] == "fail"]
    assert (red["clause"], red["fault"]) == ("TAP-ORDER", label)
