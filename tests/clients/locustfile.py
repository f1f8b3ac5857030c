"""What the Locust users of the tests do: streamed chats, each told with its tokens."""

import json
import time

from locust import HttpUser, constant, task

BODY = {
    "model": "emulated",
    "stream": True,
    "max_tokens": 16,
    "stream_options": {"include_usage": True},
    "messages": [{"role": "user", "content": "hi there"}],
}


class Chats(HttpUser):  # type: ignore[misc]
    """A user without a pause."""

    wait_time = constant(0)

    @task  # type: ignore[untyped-decorator]
    def chat(self) -> None:
        """Fails when nothing came, or no [DONE]."""
        began_s, first_ms, usage, done = time.perf_counter(), None, None, False
        with self.client.post("/v1/chat/completions", json=BODY, stream=True, catch_response=True) as answer:
            if answer.status_code != 200:
                answer.failure(f"HTTP {answer.status_code}")
                return
            for line in answer.iter_lines(chunk_size=None):
                done = done or line == b"data: [DONE]"
                if done or not line:
                    continue
                event = json.loads(line.removeprefix(b"data: "))
                usage = event.get("usage") or usage
                if first_ms is None and event["choices"] and event["choices"][0]["delta"].get("content"):
                    first_ms = (time.perf_counter() - began_s) * 1000
            if first_ms is None or usage is None or not done:
                answer.failure("the stream is not whole")
                return
            answer.success()
        for name, tokens in (("prompt", usage["prompt_tokens"]), ("output", usage["completion_tokens"])):
            self.environment.events.request.fire(
                request_type="TOKENS", name=name, response_time=first_ms, response_length=tokens,
                exception=None, context={},
            )  # fmt: skip
