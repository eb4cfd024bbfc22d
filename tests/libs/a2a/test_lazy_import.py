"""Imports that skip garbage collections and the building of pydantic models."""

import gc
import importlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from pydantic import BaseModel, ValidationError

from fleetwright_a2a.lazy_import import fast_imports


def test_fast_imports_defer_the_models_of_their_block_only() -> None:
    with fast_imports():

        class Inside(BaseModel):
            number: int

    class Outside(BaseModel):
        number: int

    assert not Inside.__pydantic_complete__
    assert Outside.__pydantic_complete__
    with pytest.raises(ValidationError):
        Inside.model_validate({"number": "many"})
    assert Inside(number=1).number == 1


@pytest.mark.parametrize("collects", [True, False])
def test_fast_imports_restore_garbage_collection_after_an_error(collects: bool) -> None:
    before = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        with pytest.raises(ModuleNotFoundError), fast_imports():
            importlib.import_module("there_is_no_such_module")
        assert gc.isenabled() is collects
    finally:
        (gc.enable if before else gc.disable)()
    assert "defer_build" not in BaseModel.model_config


def test_fast_imports_collect_no_garbage() -> None:
    with fast_imports():
        assert not gc.isenabled()


def test_nested_fast_imports_end_with_the_outermost_block() -> None:
    with fast_imports():
        with fast_imports():
            pass

        class Later(BaseModel):
            number: int

    assert not Later.__pydantic_complete__
    assert "defer_build" not in BaseModel.model_config


def test_fast_imports_in_two_threads_restore_the_process() -> None:
    def block(_: int) -> None:
        with fast_imports():
            pass

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(block, range(2000)))
    assert gc.isenabled()
    assert "defer_build" not in BaseModel.model_config
