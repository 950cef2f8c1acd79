#!/usr/bin/env python3
"""Calls an agent over gRPC and prints what happens while it happens.

    examples/python/stubs.sh
    examples/python/call.py --agent reviewer --user ana "List the files in knowledge."

It shows all that a client in any language needs: the identity goes into the metadata of the call, never into the request;
the stream ends with a terminal message, and a stream without one is broken, not empty; an error has a code, a reason and a
text, of which programs should look at the first two.
"""
import argparse
import os
import sys
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "stubs"))

import grpc
from gantry.orchestrator.v1 import run_service_pb2, run_service_pb2_grpc

def metadata(args):
    """The identity of the call. Values are percent-encoded UTF-8: any id is possible, also Ü and /."""
    pairs = [("gantry-agent", args.agent), ("gantry-user", args.user), ("gantry-session", args.session)]
    out = [(key, urllib.parse.quote(value, safe="")) for key, value in pairs if value]
    if args.token:
        out.append(("authorization", "Bearer " + args.token))
    return out


def show(event):
    """Prints one event of the journal, if people care for it."""
    kind = event.payload.WhichOneof("kind")
    if kind == "tool_dispatched":
        call = event.payload.tool_dispatched
        print(f"  -> {call.name} {call.arguments_json}")
    elif kind == "tool_ended":
        result = event.payload.tool_ended.result
        text = " ".join(result.text.split())
        print(f"  <- {result.name}: {text[:100]}")
    elif kind == "task_started":
        print(f"  => {event.payload.task_started.agent} works on {event.payload.task_started.label!r}")
    elif kind == "interaction_requested":
        asked = event.payload.interaction_requested.interaction
        print(f"  ?? {asked.kind}: {asked.prompt} (answer with ResolveInteractions, id {asked.id})")


def call(stub, args):
    """Streams one call to its end and returns the exit code."""
    request = run_service_pb2.StreamAgentRequest(input=run_service_pb2.RunInput(text=args.text))
    streaming = False
    for message in stub.StreamAgent(request, metadata=metadata(args), timeout=args.timeout):
        item = message.event.WhichOneof("item")
        if item == "delta" and not message.event.delta.thinking:
            print(message.event.delta.text, end="", flush=True)
            streaming = True
            continue
        if streaming and item == "event":
            print()
            streaming = False
        if item == "event":
            show(message.event.event)
        elif item == "terminal":
            run = message.event.terminal.run
            print(f"\n{message.event.terminal.outcome}: run {run.id} of session {run.thread.session}, {run.steps} steps")
            if run.message:
                print(run.message)
            return 0 if message.event.terminal.outcome == "completed" else 1
    print("the stream ended without a terminal message: AttachRun follows the run", file=sys.stderr)
    return 1


def fields(data):
    """The length-delimited fields of a protobuf message, as pairs of number and bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        number, kind = divmod(varint(), 8)
        size = varint()  # of the field, or the number itself
        if kind == 2:
            yield number, data[at:at + size]
            at += size


def reason(error):
    """The reason of an error, "" when it has none: that of the google.rpc.ErrorInfo in the google.rpc.Status of the trailer.

    Debian has no Python stubs of these two, and they are simple enough to read without.
    """
    for key, status in error.trailing_metadata() or ():
        for number, detail in fields(status) if key == "grpc-status-details-bin" else ():
            packed = dict(fields(detail)) if number == 3 else {}
            if packed.get(1, b"").endswith(b"/google.rpc.ErrorInfo"):
                return dict(fields(packed[2])).get(1, b"").decode()
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--address", default=os.environ.get("GANTRY_ADDR", "127.0.0.1:7401"))
    parser.add_argument("--agent", default="default")
    parser.add_argument("--user", default="")
    parser.add_argument("--session", default="", help="empty: a fresh one")
    parser.add_argument("--token", default=os.environ.get("GANTRY_TOKEN", ""))
    parser.add_argument("--timeout", type=float, default=600, help="seconds")
    parser.add_argument("text")
    args = parser.parse_args()
    with grpc.insecure_channel(args.address) as channel:
        try:
            return call(run_service_pb2_grpc.RunServiceStub(channel), args)
        except grpc.RpcError as error:
            print(f"{error.code().name} {reason(error)}: {error.details()}", file=sys.stderr)
            return 1


if __name__ == "__main__":
    sys.exit(main())
