#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# tests.sh: what a cluster shows of ramjet-kubelet. node.sh runs it on the node. Each line of "ok" is a test that passed.
set -euo pipefail
resource=rdma/hca_shared_devices_a

say() { printf 'ok   %s (after %d s)\n' "$*" "$SECONDS"; }
fail() {
  echo "FAIL $*" >&2
  kubectl get nodes,pods,resourceclaims -A -o wide >&2 || true
  kubectl get events -A --sort-by=.lastTimestamp 2>/dev/null | tail -n 30 >&2 || true
  tail -n 25 /state/kubelet.log >&2
  find /run/cdi /var/lib/ramjet/devices >&2 || true
  tail -n 5 /state/*.out >&2 || true
  exit 1
}
# until_true SECONDS WHAT COMMAND: waits until the command succeeds.
until_true() {
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || fail "not within time: $what"
    sleep 0.5
  done
}
start_kubelet() {
  kubelet --config /state/kubelet.yaml --kubeconfig /state/node.conf --hostname-override node --node-ip 192.0.2.1,fd00:2::1 \
    --cert-dir /state/kubelet-certificates >>/state/kubelet.log 2>&1 &
  kubelet=$!
}
allocatable() { [[ $(kubectl get node node -o "jsonpath={.status.allocatable['${resource/./\\.}']}") == "$1" ]]; }
plugin_log() { kubectl -n ramjet logs "ds/ramjet-kubelet"; }
has_event() { kubectl get events --field-selector "involvedObject.name=$1" -o 'jsonpath={..message}' | grep "$2"; }

# pod NAME RESOURCES: a pod without privileges.
pod() {
  kubectl apply -f - >/dev/null <<YAML
apiVersion: v1
kind: Pod
metadata: {name: $1}
spec:
  terminationGracePeriodSeconds: 0
  automountServiceAccountToken: false
  ${3-}
  containers:
  - name: main
    image: localhost/perftest:1
    command: [sleep, infinity]
    resources: $2
    securityContext:
      runAsUser: 65534
      runAsNonRoot: true
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL]}
      seccompProfile: {type: RuntimeDefault}
YAML
}
# between PROGRAM...: the program's server in one pod, its client in the other. address is which of the server's
# addresses the client dials, suffix that of the pods' names.
address=0 suffix=
between() {
  local to server
  to=$(kubectl get pod "server$suffix" -o "jsonpath={.status.podIPs[$address].ip}")
  kubectl exec "server$suffix" -- "$@" >/state/server.out 2>&1 &
  server=$!
  until_true 60 "$* between two pods" client "$to" "$@"
  wait "$server" || fail "the server of $*: $(cat /state/server.out)"
  say "between two pods, to $to: $*: $(grep -E 'Mbit/sec|^ *65536' /state/client.out | tail -n 1)"
}
# doctor ADDRESS TEXT...: in a pod, ramjet doctor says each text of a peer.
doctor() {
  local text
  kubectl exec "client$suffix" -- /opt/ramjet/bin/ramjet doctor "$1" >/state/doctor.out 2>&1 || true # the status is that of findings
  for text in "${@:2}"; do
    tr -s '[:space:]' ' ' </state/doctor.out | grep -qF "$text" || fail "doctor in a pod does not say \"$text\": $(cat /state/doctor.out)"
  done
}
plugin_pod() { kubectl -n ramjet get pods -l app=ramjet-kubelet -o 'jsonpath={.items[0].metadata.name}'; }
# metrics_of POD [CONTAINER]: the node's endpoint has series of a device of the pod.
metrics_of() {
  kubectl get --raw "/api/v1/namespaces/ramjet/pods/$(plugin_pod):9477/proxy/metrics" >/state/metrics.out
  grep "namespace=\"default\",pod=\"$1\",container=\"${2-main}\"" /state/metrics.out
}
client() { kubectl exec "client$suffix" -- "${@:2}" "$1" >/state/client.out 2>&1; }

start_kubelet
until_true 120 "the node is ready" kubectl wait --for=condition=Ready node/node --timeout=1s
say "the node is ready: $(kubectl get node node -o 'jsonpath={.status.nodeInfo.kubeletVersion} {.status.nodeInfo.containerRuntimeVersion}')"

kubectl apply -f /tree/deploy/ramjet.yaml >/dev/null
until_true 120 "the plugin registers" allocatable 100
say "the plugin of deploy/ramjet.yaml registers: 100 of $resource"

helm lint --quiet /tree/chart >/state/helm.out 2>&1 || fail "the chart: $(cat /state/helm.out)"
helm template ramjet /tree/chart --namespace ramjet | kubectl diff -f - >/state/helm.out 2>&1 || fail "the chart is not ramjet.yaml: $(cat /state/helm.out)"
for value in hardware=some metricsPort=-1 dra.devices=0 image.name=x "resources[0].name=none"; do
  if helm template ramjet /tree/chart --set "$value" >/dev/null 2>&1; then fail "the chart takes $value"; fi
done
for values in dra.enabled=false,metricsPort=0 \
  "dra.driver=example.com,resources[0].name=example.com/a,resources[0].devices=1,resources[0].environment.RAMJET_DEVICES=iwarp:"; do
  helm template ramjet /tree/chart --namespace ramjet --set "$values" | kubectl apply --dry-run=server -f - >/state/helm.out 2>&1 ||
    fail "the chart with $values: $(cat /state/helm.out)"
done
say "helm's chart is the same as ramjet.yaml, takes other values, and refuses wrong ones"

for example in claim go-test ib-write-bw network-policy; do
  kubectl apply --dry-run=server -f "/tree/deploy/examples/$example.yaml" >/state/examples.out 2>&1 || fail "$example.yaml: $(cat /state/examples.out)"
done
say "the API server takes the examples"

limits="{limits: {$resource: 1}}"
kubectl create service clusterip server --tcp=18515 >/dev/null
pod server "$limits"
pod client "$limits"
kubectl wait --for=condition=Ready pod/server pod/client --timeout=60s >/dev/null || fail "two pods do not start"
between ibv_rc_pingpong -d roce0 -g 0
between ib_write_bw -d roce0 -n 200
between ibv_rc_pingpong -d roce1 -g 0 # its server listens on IPv4 alone, and tells its GID, which is an IPv6 address
address=1 between ib_write_bw -d roce1 -n 200 --ipv6-addr

to=$(kubectl get pod server -o 'jsonpath={.status.podIP}')
kubectl exec server -- /opt/ramjet/bin/ramjet ping -s -P -d "roce:$to" >/state/server.out 2>&1 &
server=$!
until_true 60 "ramjet ping serves" grep -q waiting /state/server.out
doctor "$to" "libibverbs.so.1" "can be loaded. This system has glibc 2.41" "preloaded libramjet-sysfs.so" "sysfs /run/ramjet-sysfs: roce0, roce1" "roce0 is roce:10.244.0." "on eth0, MTU 1450 (path MTU 1024)" \
  "roce1 is roce:fd00:244::" "packets of 1450 bytes get there" "it answers a request for a connection"
cp /state/doctor.out /state/doctor-pod.out
doctor "$(kubectl get service server -o 'jsonpath={.spec.clusterIP}')" "it is the address of the service server (\$SERVER_SERVICE_HOST)"
# shellcheck disable=SC2016 # the pod's shell expands it
kubectl exec server -- sh -c 'kill -INT $(pidof ramjet)' >/dev/null 2>&1 || kill "$server"
wait "$server" 2>/dev/null || true
say "doctor in a pod: libraries, addresses, limits and the peer; the address of a service is told"

kubectl apply -f - >/dev/null <<YAML
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: ipv6}
handler: ipv6
YAML
pod server6 "$limits" "runtimeClassName: ipv6"
pod client6 "$limits" "runtimeClassName: ipv6"
kubectl wait --for=condition=Ready pod/server6 pod/client6 --timeout=60s >/dev/null || fail "pods with IPv6 alone do not start"
suffix=6 between ib_write_bw -d roce0 -n 200 --ipv6-addr
suffix=6 doctor "$(kubectl get pod server6 -o 'jsonpath={.status.podIP}')" "roce0 is roce:fd00:246::" "packets of 1450 bytes get there"
kubectl delete pod server6 client6 --wait >/dev/null
say "pods with IPv6 alone have a device of their address"

kubectl exec server -- ibv_rc_pingpong -d roce0 -g 0 >/dev/null 2>&1 &
server=$!
until_true 60 "the node's metrics have a pod's device" metrics_of server
series=$(grep -m 1 'pod="server"' /state/metrics.out)
until_true 60 "ibv_rc_pingpong ends" client "$(kubectl get pod server -o 'jsonpath={.status.podIP}')" ibv_rc_pingpong -d roce0 -g 0
wait "$server" || fail "ibv_rc_pingpong's server"
say "the node's metrics name the pod: $series"

kill -9 "$kubelet"
wait "$kubelet" 2>/dev/null || true
start_kubelet
again() { (($(plugin_log | grep -c "msg=registered.*$resource") == 2)); }
until_true 120 "the plugin registers with the kubelet's next process" again
until_true 120 "the devices are there after the kubelet's restart" allocatable 100
pod third "$limits"
kubectl wait --for=condition=Ready pod/third --timeout=60s >/dev/null || fail "no pod starts after the kubelet's restart"
between ibv_rc_pingpong -d roce0 -g 0
say "the kubelet is killed and comes back: the plugin registers again, old pods run, a new one starts"

# The program is killed in its pod, and the kubelet starts the container again.
restarts() { [[ $(kubectl -n ramjet get pods -l app=ramjet-kubelet -o 'jsonpath={.items[0].status.containerStatuses[0].restartCount}') == "$1" ]]; }
for process in /proc/[0-9]*; do
  if [[ $(tr '\0' ' ' 2>/dev/null <"$process/cmdline") == /bin/ramjet-kubelet\ * ]]; then kill -9 "${process#/proc/}"; fi
done
until_true 60 "the killed plugin comes back" restarts 1
# Until the next process registers, the kubelet refuses pods that ask for its devices: UnexpectedAdmissionError.
registered() { [[ $(plugin_log | grep -c "msg=registered.*$resource") == 1 ]]; }
until_true 60 "the killed plugin registers again" registered
until_true 60 "the devices are there after the plugin's restart" allocatable 100
pod fourth "$limits"
kubectl wait --for=condition=Ready pod/fourth --timeout=60s >/dev/null || fail "no pod starts after the plugin's restart"
between ibv_rc_pingpong -d roce0 -g 0
say "the plugin is killed and comes back: old pods run, a new one starts"

kubectl delete -f /tree/deploy/ramjet.yaml >/dev/null
until_true 60 "no device is offered without the plugin" allocatable 0
between ibv_rc_pingpong -d roce0 -g 0
helm install ramjet /tree/chart --namespace ramjet --create-namespace >/state/helm.out 2>&1 || fail "helm install: $(cat /state/helm.out)"
until_true 120 "the plugin of the chart registers" allocatable 100
pod fifth "$limits"
kubectl wait --for=condition=Ready pod/fifth --timeout=60s >/dev/null || fail "no pod starts after helm install"
between ibv_rc_pingpong -d roce0 -g 0
say "ramjet.yaml is deleted, and helm installs the chart: old pods run, a new one starts"

pod all "{limits: {$resource: 100}}"
until_true 60 "a pod that asks for all devices waits" has_event all "Insufficient $resource"
kubectl delete pod server client third fourth fifth --wait >/dev/null
kubectl wait --for=condition=Ready pod/all --timeout=120s >/dev/null || fail "devices are not given back"
kubectl delete pod all --wait >/dev/null
say "devices are given back: a pod that asks for all 100 waits for those that have some"

kubectl apply -f - >/dev/null <<YAML
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: rdma}
spec: {devices: {requests: [{name: rdma, exactly: {deviceClassName: ramjet.dev}}]}}
YAML
pod claimant "{claims: [{name: rdma}]}" "resourceClaims: [{name: rdma, resourceClaimName: rdma}]"
kubectl wait --for=condition=Ready pod/claimant --timeout=60s >/dev/null || fail "a pod with a claim does not start"
kubectl exec claimant -- ibv_devinfo -d roce0 >/state/devinfo.out 2>&1 || fail "ibv_devinfo with a claim: $(cat /state/devinfo.out)"
say "a claim is allocated: $(kubectl get resourceclaim rdma -o 'jsonpath={.status.allocation.devices.results[0].device}')"
kubectl delete pod claimant --wait >/dev/null
released() { [[ -z $(kubectl get resourceclaim rdma -o 'jsonpath={.status.allocation}') ]]; }
until_true 60 "the claim is released" released
# The kubelet releases what it prepared after the pod has gone from the API server.
clean() { [[ -z $(find /run/cdi /var/lib/ramjet/devices -name '*claim*') ]]; }
until_true 60 "the claim's files are gone" clean
say "the claim is released, and its files are gone"

kubectl apply -f - >/dev/null <<YAML
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: impossible}
spec:
  devices:
    requests: [{name: rdma, exactly: {deviceClassName: ramjet.dev}}]
    config: [{opaque: {driver: ramjet.dev, parameters: {apiVersion: ramjet.dev/v1, kind: None}}}]
YAML
pod refused "{claims: [{name: rdma}]}" "resourceClaims: [{name: rdma, resourceClaimName: impossible}]"
until_true 60 "an event of the pod says why its claim is refused" has_event refused "ramjet.dev takes no parameters"
why() { [[ $(kubectl get resourceclaim impossible -o 'jsonpath={.status.devices[0].conditions[?(@.type=="Ready")].message}') == *"takes no parameters"* ]]; }
until_true 60 "the status of the claim says why it is refused" why
say "a claim that is impossible is refused: the pod's events and the claim's status say why"

# shellcheck source=kubernetes/cluster/jobs.sh
source /tree/jobs.sh
# shellcheck source=kubernetes/cluster/mpijob.sh
source /tree/mpijob.sh
# shellcheck source=kubernetes/cluster/infiniband.sh
source /tree/infiniband.sh
