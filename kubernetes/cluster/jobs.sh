#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# jobs.sh: the part of tests.sh with the examples that are Jobs. Their images have what the examples install or fetch.
# shellcheck source=kubernetes/cluster/tests.sh disable=SC2154

# completes JOB: waits for the job's end, and writes its log.
completes() {
  until_true 180 "the job $1 completes" kubectl wait --for=condition=Complete "job/$1" --timeout=1s
  kubectl logs "job/$1" >"/state/$1.out" 2>&1 || true
}

sed -e 's|image: debian:12|image: localhost/perftest:1|' -e 's|apt-get update .* perftest && ||' /tree/deploy/examples/ib-write-bw.yaml |
  kubectl apply -f - >/dev/null || fail "ib-write-bw.yaml"
completes ib-write-bw
grep -q '^ *65536 ' /state/ib-write-bw.out || fail "the job has no table: $(cat /state/ib-write-bw.out)"
say "ib-write-bw.yaml: $(grep '^ *65536 ' /state/ib-write-bw.out | tr -s ' ')"
kubectl delete -f /tree/deploy/examples/ib-write-bw.yaml --wait >/dev/null

sed -e 's|image: golang:.*|image: localhost/citest:1|' -e 's|command: .*|command: [/citest, -test.v]|' /tree/deploy/examples/go-test.yaml |
  kubectl apply -f - >/dev/null || fail "go-test.yaml"
completes go-test
grep -q '^PASS' /state/go-test.out || fail "the suite does not pass: $(cat /state/go-test.out)"
say "go-test.yaml: $(grep -c '^--- PASS' /state/go-test.out) tests pass"
kubectl delete job go-test --wait >/dev/null
