"""The matrix as tests; installed as `matrix._suite`: `pytest --pyargs matrix._suite`."""
