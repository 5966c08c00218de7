#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the peer machine runs: the control program, which prints "peer: ready" when it listens.
exec python3 /peer/peer.py
