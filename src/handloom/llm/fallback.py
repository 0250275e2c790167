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
        self._given_up: list[Model] = []

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
            model = self._models[0]
            try:
                return await model.complete(request, emit)
            except ContextOverflowError:
                raise
            except ModelError as error:
                if model is not self._models[0]:
                    continue  # another request has given it up meanwhile
                if len(self._models) == 1:
                    raise
                self._given_up.append(self._models.pop(0))  # closed at the end: others may still be asking it
                await emit(WarningRaised(topic="model", text=f"{error}; going on with {self.name}"))

    def estimate(self, request: Request) -> int:
        return self._models[0].estimate(request)

    async def aclose(self) -> None:
        for model in (*self._models, *self._given_up):
            await model.aclose()
