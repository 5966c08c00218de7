#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# mpijob.sh: the part of tests.sh with deploy/examples/mpi.yaml, and the MPI Operator of its own release's manifest.
# shellcheck source=kubernetes/cluster/tests.sh disable=SC2154

job_has() { kubectl wait --for="condition=$1" mpijob/mpi-over-ramjet --timeout=1s; }
# succeeds: waits for the job's end.
succeeds() {
  until_true 180 "the MPIJob ends" eval 'job_has Succeeded || job_has Failed'
  kubectl logs job/mpi-over-ramjet-launcher >/state/mpi.out 2>&1 || true
  job_has Succeeded >/dev/null || fail "the MPIJob: $(cat /state/mpi.out)"
}
# passes POD: the node's metrics have more than a megabyte of RDMA that the pod's device has sent.
passes() {
  metrics_of "$1" worker | awk '/^ramjet_port_data_transmitted_bytes_total/ && $NF > 1e6 { found = 1 } END { exit !found }'
}

kubectl apply --server-side -f /parts/mpi-operator.yaml >/dev/null || fail "the MPI Operator's manifest"
kubectl -n mpi-operator rollout status deploy/mpi-operator --timeout=120s >/dev/null || fail "the MPI Operator does not start"

kubectl apply -f /tree/deploy/examples/mpi.yaml >/dev/null || fail "mpi.yaml"
succeeds
grep -q "^Workers: 2" /state/mpi.out || fail "the MPIJob has not run two ranks: $(cat /state/mpi.out)"
for worker in 0 1; do
  grep -q "^Rank . on host mpi-over-ramjet-worker-$worker" /state/mpi.out || fail "no rank was on worker $worker: $(cat /state/mpi.out)"
done
say "an MPIJob succeeds, one rank in each worker: $(grep "^pi is" /state/mpi.out)"
kubectl delete -f /tree/deploy/examples/mpi.yaml --wait >/dev/null
kubectl wait --for=delete pod -l training.kubeflow.org/job-name=mpi-over-ramjet --timeout=60s >/dev/null || fail "the MPIJob's pods stay"

# Another program runs until it is told to end, so that its counters can be read.
sed 's|/home/mpiuser/pi$|/home/mpiuser/ring|' /tree/deploy/examples/mpi.yaml | kubectl apply -f - >/dev/null
until_true 180 "the workers' ranks send by RDMA" eval 'passes mpi-over-ramjet-worker-0 && passes mpi-over-ramjet-worker-1'
series=$(metrics_of mpi-over-ramjet-worker-1 worker | grep '^ramjet_port_data_transmitted_bytes_total')
kubectl exec mpi-over-ramjet-worker-0 -- touch /tmp/stop || fail "the ring is not told to end"
succeeds
say "an MPIJob's ranks send by RDMA: $series: $(grep "have passed" /state/mpi.out)"
kubectl delete mpijob mpi-over-ramjet --wait >/dev/null
