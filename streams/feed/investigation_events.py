"""SSE events of an investigation's stream, made from its accepted records. Pure: equal records give equal events.

``status`` says what is under way, ``thought_step`` what a step did, with its calls, ``brief`` is the end of most; ``error`` and
``done`` are as in the chat's stream. Every ``data`` has the ``timestamp`` of its record.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any

from agents.core.registry import Registry
from agents.graphs import research
from schemas import envelope as wire
from schemas import events as ev
from schemas import research_events as iev
from schemas.calls import Call
from schemas.effects import Failure, SearchReply
from schemas.research_events import AnswerStopped
from streams.feed.turn_events import Frame, fields_of

PHASES = {
    "frame": "planning",
    "plan_searches": "planning",
    "search": "searching",
    "scrape": "scraping",
    "expand": "expanding",
    "state_claims": "executing",
    "critique": "critiquing",
    "brief": "synthesizing",
    "give_up_brief": "synthesizing",
    "stop": "synthesizing",
}
"""Step → phase. Before the first step it is idle; one that is tried again is recovering; the end is completed or failed."""
_DOES: dict[str, tuple[str, str]] = {
    "frame": ("Splitting the subject into sub-questions", "正在把主题拆成子问题"),
    "plan_searches": ("Planning the next searches", "正在规划下一轮搜索"),
    "search": ("Searching", "正在搜索"),
    "scrape": ("Opening the best pages", "正在打开最有用的页面"),
    "expand": ("Looking for new keywords in the evidence", "正在从证据中寻找新关键词"),
    "state_claims": ("Reading what the pages claim", "正在读取各页面的说法"),
    "critique": ("Judging each claim by quotes", "正在逐条核对说法与原文"),
    "brief": ("Writing the brief", "正在撰写简报"),
}
_SAID: dict[str, tuple[str, str]] = {
    "framed": ("{} sub-questions", "{} 个子问题"),
    "known": ("; compared with the brief as of {}", "; 与 {} 的简报对照"),
    "planned": ("round {}: {} searches", "第 {} 轮: {} 次搜索"),
    "found": ("{} pages are usable", "可用页面 {} 个"),
    "lost": ("; {} searches failed", "; {} 次搜索失败"),
    "opened": ("{} pages opened, {} stayed shut", "打开 {} 个页面, {} 个未能打开"),
    "keywords": ("new: {}", "新关键词: {}"),
    "nothing": ("nothing new", "没有新内容"),
    "claims": ("{} claims", "{} 条说法"),
    "read": ("{} of {} claims read with quotes", "{} / {} 条说法已核对原文"),
    "brief": ("{} established, {} disputed, {} unsettled, {} new", "已证实 {}, 有争议 {}, 未定 {}, 新增 {}"),
    "again": ("{} failed ({}); the worker retries it at {}", "{} 失败 ({}); 将于 {} 重试"),
    "partial": ("{} failed ({}); the brief is written of what is there", "{} 失败 ({}); 将根据已有内容撰写简报"),
    "ended": ("{} failed ({})", "{} 失败 ({})"),
    "finish": ("The brief is written of what is there", "将根据已有内容撰写简报"),
    "stopping": ("It is being stopped", "正在停止"),
    "asked": ("Looking into {}", "正在调查 {}"),
}


class InvestigationEventConverter:
    """Converts the records of one investigation, in log order, into events. ``over`` is set once its end was converted."""

    def __init__(self) -> None:
        self._zh = False
        self._calls: list[Call] = []
        self._all: list[Call] = []
        self._began: datetime | None = None
        self._opened: datetime | None = None
        self._step = ""
        self._number = 0
        self.over = False

    def take(self, env: wire.Envelope, event: Any) -> list[Frame]:
        """Return the events of the next accepted record, in order of sending; possibly none."""
        if self._opened is None:
            if not isinstance(event, iev.InvestigationAsked):
                return []
            self._zh, self._opened = event.language == "zh", env.time
        self._calls += event.calls
        self._all += event.calls
        frames = [] if isinstance(event, ev.EffectCompleted | ev.StepStarted) else self._moved(env, event)
        return [(name, {**data, "timestamp": env.time}) for name, data in frames]

    def _moved(self, env: wire.Envelope, event: Any) -> list[Frame]:
        frames = [] if isinstance(event, iev.InvestigationAsked) else [self._thought(env, event)]
        self._began, self._calls = env.time, []
        if isinstance(event, ev.TERMINAL):
            self.over = True
            return [*frames, *self._ending(env, event)]
        following = _graph().step_after(event, iev.InvestigationAsked)
        self._step = "" if following is None else following.name
        return [*frames, self._status(env, event)]

    def _status(self, env: wire.Envelope, event: Any) -> Frame:
        phase, words = PHASES.get(self._step, "executing"), _DOES.get(self._step, ("", ""))[self._zh]
        if isinstance(event, iev.InvestigationAsked):
            asked = {"investigation_id": env.case_id, "subject": event.subject, "question": event.question}
            about = {**asked, "as_of": event.as_of, "limits": fields_of(event.limits), "watch": event.watch}
            return "status", {"phase": "idle", "message": self._say("asked", event.subject), **about}
        return "status", {"phase": "recovering" if isinstance(event, ev.StepFailed) else phase, "message": words}

    def _thought(self, env: wire.Envelope, event: Any) -> Frame:
        self._number += 1
        thought, action, observation = self._texts_of(event)
        phase = PHASES.get(self._step, "executing")
        if isinstance(event, ev.StepFailed):
            phase = "recovering"
        elif isinstance(event, ev.CaseFailed):
            phase = "failed"
        return "thought_step", {
            "id": env.id,
            "number": self._number,
            "step": self._step,
            "phase": phase,
            "thought": thought,
            "action": action,
            "observation": observation,
            "tool_calls": [_call(c) for c in self._calls],
            "tokens": _tokens(self._calls),
            "cost_usd": _cost(self._calls),
            "duration_ms": _ms(self._began, env.time),
        }

    def _texts_of(self, event: Any) -> tuple[str, str, str]:
        """Return thought, action and observation: why, what was done, and what came of it."""
        done = _DOES.get(self._step, ("", ""))[self._zh]
        match event:
            case iev.InvestigationFramed():
                asked = "; ".join(q.question for q in event.questions)
                known = self._say("known", f"{event.previous.as_of:%Y-%m-%d}") if event.previous else ""
                return asked, done, self._say("framed", len(event.questions)) + known
            case ev.ToolPlanned():
                queries = "; ".join(t.query for t in event.tasks)
                return event.reason, queries or done, self._say("planned", event.round, len(event.tasks))
            case ev.SearchCompleted():
                lost = sum(o.failure is not None for o in event.outcomes)
                observation = self._say("found", len(event.findings.references)) + (
                    self._say("lost", lost) if lost else ""
                )
                return "", done, observation
            case ev.PagesScraped():
                return "", done, self._say("opened", len(event.pages), len(event.failures))
            case ev.KeywordsExpanded():
                words = ", ".join(event.keywords)
                return event.reason, done, self._say("keywords", words) if words else self._say("nothing")
            case iev.ClaimsStated():
                return "; ".join(c.claim for c in event.claims), done, self._say("claims", len(event.claims))
            case iev.ClaimsCritiqued():
                read = sum(r.stances is not None for r in event.readings)
                return "", done, self._say("read", read, len(event.readings))
            case iev.BriefWritten():
                sections = (event.established, event.disputed, event.unsettled, event.new_since)
                return "", done or _DOES["brief"][self._zh], self._say("brief", *map(len, sections))
            case ev.StepFailed():
                return "", event.step, self._failed(event)
            case _:
                return "", "", self._ended(event)

    def _failed(self, event: ev.StepFailed) -> str:
        if event.outcome == "retry":
            at = "" if event.retry_at is None else f"{event.retry_at:%H:%M:%S} UTC"
            return self._say("again", event.step, event.failure.kind, at)
        return self._say("partial" if event.outcome == "degrade" else "ended", event.step, event.failure.kind)

    def _ended(self, event: Any) -> str:
        match event:
            case ev.CancelRequested():
                return self._say("stopping")
            case ev.FinishRequested():
                return self._say("finish")
            case _:
                return str(getattr(event, "reason", ""))

    def _ending(self, env: wire.Envelope, event: Any) -> list[Frame]:
        spent = {
            "tokens": _tokens(self._all),
            "cost_usd": _cost(self._all),
            "seconds": _ms(self._opened, env.time) / 1000,
        }
        match event:
            case iev.BriefWritten():
                return [("brief", fields_of(event)), ("done", {"phase": "completed", "state": "finished", **spent})]
            case AnswerStopped(requested_by=by, reason=reason):
                stopped = {"phase": "completed", "state": "stopped", "requested_by": by, "reason": reason}
                return [("done", {**stopped, **spent})]
            case _:
                step, words = getattr(event, "failed_step", ""), getattr(event, "reason", type(event).__name__)
                failed = {"phase": "failed", "state": "failed"}
                return [
                    ("error", {"error": step or "failed", "message": words, **failed}),
                    ("done", {**failed, **spent}),
                ]

    def _say(self, name: str, *values: object) -> str:
        return _SAID[name][self._zh].format(*values)


@cache
def _graph() -> Registry:
    return research()


def _call(call: Call) -> dict[str, Any]:
    reply = call.reply
    described: dict[str, Any] = {
        "kind": call.kind,
        "provider": call.provider,
        "model": call.model,
        "ok": call.error is None,
    }
    described |= {"prompt": call.prompt_name} if call.prompt_name else {}
    described |= {"query": reply.query, "hits": len(reply.results)} if isinstance(reply, SearchReply) else {}
    described |= {"error": reply.kind} if isinstance(reply, Failure) else {}
    return {
        **described,
        "mode": call.mode,
        "cached": call.cached,
        "latency_ms": call.latency_ms,
        "cost_usd": call.cost_usd,
    }


def _tokens(calls: list[Call]) -> dict[str, int]:
    return {
        "input": sum(c.usage_input_tokens for c in calls),
        "output": sum(c.usage_output_tokens + c.usage_thinking_tokens for c in calls),
    }


def _cost(calls: list[Call]) -> Decimal | None:
    """Return what the calls cost in USD; None where the price of one is unknown."""
    costs = [c.cost_usd for c in calls]
    return None if None in costs else sum((c for c in costs if c is not None), Decimal(0))


def _ms(since: datetime | None, until: datetime) -> int:
    return 0 if since is None else max(0, round((until - since).total_seconds() * 1000))
