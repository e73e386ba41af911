"""The wire format, version 1: ``control.proto`` and what ``make proto`` makes of it."""
