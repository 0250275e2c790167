"""FallbackModel: several models in order; when one cannot be had, the next takes over for the rest of the run."""

from collections.abc import Sequence

from handloom.errors import ContextOverflowError, ModelError
from handloom.events import WarningRaised
from handloom.llm.model import Emit, Model, Reply, Request
from handloom.llm.profiles import Profile


class FallbackModel:
    """The first of `models` that answers. Raises: ModelError of the last one when none does."""

    def __init__(self, models: Sequence[Model]) -> None:
        self._models = list(models)

    @property
    def models(self) -> tuple[Model, ...]:
        """Those that are left, in order."""
        return tuple(self._models)

    @property
    def name(self) -> str:
        return self._models[0].name

    @property
    def profile(self) -> Profile:
        return self._models[0].profile

    async def complete(self, request: Request, emit: Emit) -> Reply:
        while True:
            try:
                return await self._models[0].complete(request, emit)
            except ContextOverflowError:
                raise
            except ModelError as error:
                if len(self._models) == 1:
                    raise
                await self._models.pop(0).aclose()
                await emit(WarningRaised(topic="model", text=f"{error}; going on with {self.name}"))

    def estimate(self, request: Request) -> int:
        return self._models[0].estimate(request)

    async def aclose(self) -> None:
        for model in self._models:
            await model.aclose()
