from __future__ import annotations

import contextlib
import os
import signal
import threading

import pytest

from longhaul.runs.signals import SignalRequests, Stopped


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


def nothing() -> None:
    pass


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_asks_to_stop_and_gives_the_exit_code(number: signal.Signals, code: int) -> None:
    with SignalRequests(nothing) as requests:
        assert requests.stop_reason is None
        assert requests.exit_code == 0
        send(number)
        assert requests.stop_reason == f"stopped by {number.name}"
        assert requests.exit_code == code


def test_a_second_interrupt_stops_at_once() -> None:
    old = signal.getsignal(signal.SIGTERM)
    with SignalRequests(nothing) as requests:
        send(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)
        assert signal.getsignal(signal.SIGTERM) is old
        assert requests.exit_code == 130


def test_a_second_request_to_terminate_changes_nothing() -> None:
    with SignalRequests(nothing) as requests:
        send(signal.SIGTERM)
        send(signal.SIGTERM)
        send(signal.SIGINT)
        assert requests.exit_code == 143


def test_a_user_signal_asks_for_a_checkpoint_and_goes_on() -> None:
    calls: list[int] = []
    with SignalRequests(lambda: calls.append(1)) as requests:
        send(signal.SIGUSR1)
        send(signal.SIGUSR1)
        assert calls == [1, 1]
        assert requests.stop_reason is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_can_be_done_again_is_ended_at_once(number: signal.Signals) -> None:
    with SignalRequests() as requests:
        with (
            pytest.raises(Stopped, match=f"stopped by {number.name} during set-up"),
            requests.ending_at_once("set-up"),
        ):
            send(number)
        with pytest.raises(Stopped), requests.ending_at_once("the report"):
            pytest.fail("a request that came before must not be lost")
        requests.check()
        assert requests.exit_code == 128 + number


def test_code_that_catches_everything_is_ended_at_its_next_step() -> None:
    with SignalRequests() as requests, requests.ending_at_once("a test"):
        with contextlib.suppress(BaseException):  # as careless environments do
            send(signal.SIGTERM)
        with pytest.raises(Stopped):
            requests.check()


def test_a_second_interrupt_ends_the_cleaning_up_as_well() -> None:
    with SignalRequests() as requests:
        with pytest.raises(Stopped), requests.ending_at_once("a test"):
            send(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt) as raised:
            send(signal.SIGINT)
    assert not isinstance(raised.value, Stopped)


def test_the_old_handlers_come_back() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    before = [signal.getsignal(number) for number in numbers]
    with SignalRequests(nothing):
        assert all(signal.getsignal(one) != old for one, old in zip(numbers, before, strict=True))
    assert [signal.getsignal(number) for number in numbers] == before


def test_outside_the_main_thread_nothing_is_installed() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen: list[object] = []

    def enter() -> None:
        with SignalRequests(nothing):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert seen == [before]
