"""Values that may change during a run, declared once and read through the declaration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from longhaul.core.errors import ConfigError
from longhaul.core.metrics import setting_suggestion

SettingValue = bool | int | float | str | tuple["SettingValue", ...]
T = TypeVar("T", bound=SettingValue)


@dataclass(frozen=True, slots=True)
class Assignment:
    """One setting's next value."""

    name: str
    value: SettingValue


@dataclass(frozen=True, slots=True)
class Setting(Generic[T]):
    """The declaration of a value that controllers may change between iterations."""

    name: str
    default: T
    meaning: str
    low: float | None = None
    high: float | None = None

    def to(self, value: T) -> Assignment:
        """Return the assignment of `value` to this setting."""
        return Assignment(self.name, value)

    def check(self, value: SettingValue) -> SettingValue:
        """Return `value` if this setting may hold it, as the type of its default."""
        if (
            isinstance(self.default, float)
            and isinstance(value, int)
            and not isinstance(value, bool)
        ):
            value = float(value)
        if type(value) is not type(self.default):
            raise ConfigError(
                f"setting {self.name!r} holds {type(self.default).__name__}, not {value!r}"
            )
        if isinstance(value, (int, float)):
            below = self.low is not None and not value >= self.low
            above = self.high is not None and not value <= self.high
            if below or above:
                raise ConfigError(
                    f"setting {self.name!r} = {value!r} is outside [{self.low}, {self.high}]"
                )
        return value


class Settings:
    """An immutable set of declared settings and their present values."""

    __slots__ = ("_declared", "_values")

    def __init__(
        self,
        declared: Iterable[Setting[Any]],
        values: Mapping[str, SettingValue] | None = None,
    ) -> None:
        self._declared: dict[str, Setting[SettingValue]] = {}
        for setting in declared:
            if setting.name in self._declared:
                raise ConfigError(f"setting {setting.name!r} is declared twice")
            self._declared[setting.name] = setting
        self._values: dict[str, SettingValue] = {
            name: setting.default for name, setting in self._declared.items()
        }
        for name, value in (values or {}).items():
            self._values[name] = self.declaration(name).check(value)

    def __getitem__(self, setting: Setting[T]) -> T:
        """Return the present value of a declared setting."""
        return cast(T, self._values[setting.name])

    def __contains__(self, name: str) -> bool:
        return name in self._declared

    def __iter__(self) -> Iterator[str]:
        return iter(self._declared)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Settings) and self._values == other._values

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return f"Settings({self._values!r})"

    def declaration(self, name: str) -> Setting[SettingValue]:
        """Return the declaration of the setting called `name`."""
        if name not in self._declared:
            close = setting_suggestion(name, self._declared)
            raise ConfigError(f"setting {name!r} is not declared{close}")
        return self._declared[name]

    def with_(self, assignments: Iterable[Assignment]) -> Settings:
        """Return settings with these values changed and the others kept."""
        changed = {assignment.name: assignment.value for assignment in assignments}
        if not changed:
            return self
        return Settings(self._declared.values(), {**self._values, **changed})

    def values(self) -> dict[str, SettingValue]:
        """Return the present values by name."""
        return dict(self._values)
