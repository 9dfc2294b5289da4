"""The verdict: one joint answer from readings and findings."""

from vario.verdict.changes import Change
from vario.verdict.diagnosis import Diagnosis, Examiner, Finding, UnknownCheck, Verdict, diagnose
from vario.verdict.serial import to_json

__all__ = ["Change", "Diagnosis", "Examiner", "Finding", "UnknownCheck", "Verdict", "diagnose", "to_json"]
