from __future__ import annotations

import os
import signal
import threading

import pytest

from longhaul.runs.signals import SignalRequests


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
        assert requests.stop_signal is number
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


def test_the_old_handlers_come_back() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    before = [signal.getsignal(number) for number in numbers]
    with SignalRequests(nothing) as requests:
        assert requests.is_installed
        assert [signal.getsignal(number) for number in numbers] != before
    assert [signal.getsignal(number) for number in numbers] == before


def test_outside_the_main_thread_nothing_is_installed() -> None:
    seen: list[bool] = []

    def enter() -> None:
        with SignalRequests(nothing) as requests:
            seen.append(requests.is_installed)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert seen == [False]
