"""Output: the form that an agent's answer must have, as a JSON Schema or a pydantic model."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from handloom.errors import ConfigError
from handloom.llm.repair import UnreadableError, read_object
from handloom.messages import Json

if TYPE_CHECKING:
    from pydantic import BaseModel


@dataclass(frozen=True)
class Output:
    """A checked form of answers. `model`, where given, is what `parse` returns an instance of."""

    schema: Json
    model: "type[BaseModel] | None" = None

    @classmethod
    def of(cls, form: "Output | Json | type[BaseModel]") -> "Output":
        """From a JSON Schema or a pydantic model. Raises: ConfigError when the schema is none."""
        if isinstance(form, Output):
            return form
        if isinstance(form, dict):
            output = cls(form)
            output.problem("null")
            return output
        return cls(form.model_json_schema(), form)

    def problem(self, text: str) -> str:
        """Why a text is no answer of this form, naming the place; empty when it is one."""
        import jsonschema_rs

        try:
            validator = jsonschema_rs.validator_for(self.schema)
        except (jsonschema_rs.ValidationError, ValueError) as error:
            raise ConfigError(f"the output schema is no valid JSON Schema: {error}") from None
        try:
            value = self._read(text)
        except (UnreadableError, json.JSONDecodeError) as error:
            return f"it is not JSON ({error})"
        faults = [
            f"{'.'.join(map(str, error.instance_path)) or 'answer'}: {error.message}"
            for error in validator.iter_errors(value)
        ]
        return "; ".join(faults[:5]) or self._refused(value)

    def parse(self, text: str) -> Any:
        """The answer as JSON values, or as an instance of `model`."""
        value = self._read(text)
        return self.model.model_validate(value) if self.model else value

    def _refused(self, value: Any) -> str:
        """What the model's own validators say, beyond the schema."""
        if self.model is None:
            return ""
        from pydantic import ValidationError

        try:
            self.model.model_validate(value)
        except ValidationError as error:
            return "; ".join(
                f"{'.'.join(map(str, fault['loc'])) or 'answer'}: {fault['msg']}" for fault in error.errors()[:5]
            )
        return ""

    def _read(self, text: str) -> Any:
        return read_object(text) if self.schema.get("type") == "object" else json.loads(text)
