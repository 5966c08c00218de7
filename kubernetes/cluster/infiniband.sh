#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# infiniband.sh: the part of tests.sh with deploy/examples/infiniband.yaml: pods whose adapters join a fabric.
# shellcheck source=kubernetes/cluster/tests.sh disable=SC2154

# here_of FILE: the example, with the image that has its packages.
here_of() { sed -e 's|image: debian:12|image: localhost/mpi:1|' -e '/apt-get install/d' "/tree/deploy/examples/$1"; }
fabric() { kubectl exec deploy/fabric -c fabric -- /opt/ramjet/bin/ramjet fabric "$@"; }
fabric_has() { fabric show | grep -E "$1"; }
# fabric_again COMMAND...: the command replaces the fabric's pod; waits for the next one.
fabric_again() {
  local old
  old=$(kubectl get pods -l app=fabric -o 'jsonpath={.items[0].metadata.name}')
  "$@" >/dev/null 2>&1 || fail "$*"
  kubectl wait --for=delete "pod/$old" --timeout=60s >/dev/null || fail "the fabric's pod does not end"
  kubectl rollout status deploy/fabric --timeout=60s >/dev/null || fail "the fabric's next pod does not start"
}
# writes ARGUMENTS...: starts ib_write_bw between the pods, whose adapters are on the fabric from then on.
writes() {
  kubectl exec infiniband-0 -- ib_write_bw -d ib0 "$@" >/state/server.out 2>&1 &
  server=$!
  (until_true 60 "ib_write_bw's server listens" kubectl exec infiniband-0 -- sh -c 'grep -q ":4853 .* 0A " /proc/net/tcp /proc/net/tcp6')
  kubectl exec infiniband-1 -- ib_write_bw -d ib0 "$@" infiniband-0.infiniband >/state/client.out 2>&1 &
  client=$!
  until_true 60 "the adapters of both pods are on the fabric" both
}
both() { fabric show >/state/fabric.out && grep -q infiniband-0 /state/fabric.out && grep -q infiniband-1 /state/fabric.out; }
written() {
  wait "$client" || fail "$1: the client: $(cat /state/client.out)"
  wait "$server" || fail "$1: the server: $(cat /state/server.out)"
  say "$1: $(grep -E '^ *65536' /state/client.out | tail -n 1)"
}


# The node has no ssh-keygen: a pod has it.
kubectl run keys --image=localhost/mpi:1 --command -- sleep infinity >/dev/null
kubectl wait --for=condition=Ready pod/keys --timeout=60s >/dev/null || fail "a pod for the keys"
kubectl exec keys -- ssh-keygen -q -t ed25519 -N '' -f /tmp/id
for file in id id.pub; do kubectl exec keys -- cat "/tmp/$file" >"/state/$file"; done
kubectl delete pod keys --now --wait >/dev/null
kubectl create secret generic mpi-ssh --from-file=/state/id --from-file=/state/id.pub >/dev/null

kubectl apply --dry-run=server -f /tree/deploy/examples/infiniband.yaml >/state/examples.out 2>&1 || fail "infiniband.yaml: $(cat /state/examples.out)"
here_of infiniband.yaml | kubectl apply -f - >/dev/null || fail "infiniband.yaml"
for pods in deploy/fabric statefulset/infiniband; do
  kubectl rollout status "$pods" --timeout=120s >/dev/null || fail "the pods of infiniband.yaml do not start: $pods"
done

writes -n 200
written "ib_write_bw between two pods with adapters on a fabric"

kubectl exec infiniband-1 -- /opt/ramjet/bin/ramjet doctor >/state/doctor.out 2>&1 || true # the status is that of findings
tr -s '[:space:]' ' ' </state/doctor.out | grep -q "the fabric at fabric:7470 (10\.244\.0\.[0-9]*) answers " || fail "doctor in a pod does not say that the fabric answers: $(cat /state/doctor.out)"
say "doctor in a pod: the fabric answers"

mpi() { kubectl exec infiniband-0 -- timeout 300 mpirun -n 2 --host infiniband-0,infiniband-1.infiniband python3 -m mpi4py.bench ringtest -n 65536 -l 20 >/state/mpi.out 2>&1; }
mpi || fail "mpirun in two pods: $(cat /state/mpi.out)"
grep -q "(2 processes" /state/mpi.out || fail "mpirun has not run two ranks: $(cat /state/mpi.out)"
say "an MPI program, one rank in each pod: $(tail -n 1 /state/mpi.out)"

writes -D 6 -u 20
fabric 'do' 'unlink infiniband-1[1]' 'wait 2s' 'relink infiniband-1[1]' >/state/do.out 2>&1 || fail "ramjet fabric do: $(cat /state/do.out)"
written "a pod's cable is pulled from outside for 2 s, and ib_write_bw goes on"

writes -D 60 -u 10
fabric 'do' 'unlink infiniband-1[1]' >/state/do.out 2>&1 || fail "ramjet fabric do: $(cat /state/do.out)"
if wait "$client"; then fail "ib_write_bw ends well without the cable: $(cat /state/client.out)"; fi
grep -q "status 12" /state/client.out || fail "without the cable ib_write_bw says another error: $(cat /state/client.out)"
# shellcheck disable=SC2016 # the pod's shell expands it
kubectl exec infiniband-0 -- sh -c 'kill $(pidof ib_write_bw)' >/dev/null 2>&1 || true # the client does not tell it
wait "$server" || true
fabric 'do' 'relink infiniband-1[1]' >/state/do.out 2>&1 || fail "ramjet fabric do: $(cat /state/do.out)"
say "a pod's cable stays pulled: ib_write_bw ends with status 12, the retries are exceeded"
writes -n 200
written "the cable is restored"

writes -D 12 -u 20
fabric_again kubectl delete pod -l app=fabric --grace-period=0 --force
until_true 60 "the adapters of both pods are on the next fabric" both
written "the fabric's pod is killed, its next one has another address, and ib_write_bw goes on"

fabric_again kubectl patch deployment fabric --patch "$(here_of infiniband-opensm.yaml)"
until_true 60 "OpenSM makes the fabric's link active, which nobody else does" fabric_has '1 link \(1 Active\)'
writes -n 200
written "OpenSM manages the fabric"
mpi || fail "mpirun under OpenSM: $(cat /state/mpi.out)"
say "an MPI program under OpenSM: $(tail -n 1 /state/mpi.out)"
