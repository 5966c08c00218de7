#!/bin/bash
# Runs one scenario with HPCC's ns-3, htsim and ramjet sim, in turn, and prints the processor time and packets of each.
# Then it runs the flows of figure 11 of HPCC's paper with ns-3: docs/sim/fbhadoop.yaml, websearch.yaml, hadoop-incast.yaml.
# It prints slowdowns beside ramjet sim's, and draws them (docs/simulators.md).
#
#   HPCC=FOLDER NS3=PROGRAM HTSIM=PROGRAM simulators.sh FOLDER [ROUNDS]    # FOLDER: for results, 100 MB
#
# HPCC is the folder "simulation" of HPCC's ns-3, NS3 the program of its scratch/third.cc, and HTSIM htsim_roce. Packets are
# printed of programs that end with a line packets=N. It needs Python 3 and Go, and Python 2.7 for HPCC's run.py (PYTHON2).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
usage="usage: HPCC=FOLDER NS3=PROGRAM HTSIM=PROGRAM simulators.sh FOLDER [ROUNDS]"
folder=$(mkdir -p "${1:?$usage}" && cd "$1" && pwd)
rounds=${2:-3}
python2=${PYTHON2:-python2.7}
hpcc=$(realpath "${HPCC:?$usage}") ns3=$(realpath "${NS3:?$usage}") htsim=$(realpath "${HTSIM:?$usage}")
[ -f "$hpcc/run.py" ] || { echo "simulators.sh: $hpcc has no run.py: HPCC is the folder \"simulation\"" >&2; exit 2; }

# config FLOWS TOPOLOGY CONTROL writes mix/config_TOPOLOGY_FLOWS_CONTROL.txt, as HPCC's run.py has it, without its monitor of queues.
config() {
	sed '/os.system("/d' "$hpcc/run.py" >run.py
	"$python2" run.py --cc "$3" --trace "$1" --bw 100 --topo "$2"
	sed -i 's/^QLEN_MON_START.*/QLEN_MON_START 9000000000/; s/^QLEN_MON_END.*/QLEN_MON_END 9000000001/' "mix/config_$2_$1_$3.txt"
}

# took NAME COMMAND prints the user time of a command, and its packets over links.
took() {
	local name=$1 TIMEFORMAT=%U seconds
	shift
	seconds=$({ time "$@" >"out.$name" 2>/dev/null; } 2>&1)
	python3 - "$name" "$seconds" "out.$name" <<'PY'
import json, re, sys
name, seconds, out = sys.argv[1:]
text = open(out).read()
found = re.findall(r'packets=(\d+)', text)
packets = int(found[-1]) if found else json.loads(text)['packets'] if text.startswith('{') else None
line = f'{name:14} {float(seconds):8.2f} s'
if packets is not None:
    line += f' {packets:10,} packets {packets / float(seconds) / 1e6:6.2f} M/s'
print(line, flush=True)
PY
}

(cd "$here/.." && go build -o "$folder/ramjet" ./cmd/ramjet)
mkdir -p "$folder/run/mix"
cd "$folder/run"
cp "$here/../docs/sim/"*.yaml "$here/../docs/sim/fat320.txt" .
cp "$hpcc/mix/"{fat,trace}.txt mix
python3 "$here/simulators.py" permutation
config perm fat128 dcqcn
sed 's/^CC_MODE.*/CC_MODE 0/; s/^ENABLE_QCN.*/ENABLE_QCN 0/' mix/config_fat128_perm_dcqcn.txt >mix/none.txt
sed 's/mix.perm.txt/mix\/none.flows/' mix/none.txt >mix/setup.txt
for ((i = 0; i < rounds; i++)); do
	took ramjet ../ramjet sim perm.yaml --json
	took htsim "$htsim" -nodes 128 -tm perm.cm -strat ecmp_host -paths 128 -q 1000 -mtu 1000 -end 3000 \
		-queue_type lossless_input -pfc_thresholds 100 200 -seed 1
	took ns-3 "$ns3" mix/none.txt
	took ns-3-no-flows "$ns3" mix/setup.txt || true # it has no packets
	took ramjet-dcqcn ../ramjet sim perm-dcqcn.yaml --json
	took ns-3-dcqcn "$ns3" mix/config_fat128_perm_dcqcn.txt
done

# compare NAME SCENARIO OUT runs a scenario with DCQCN, and with a window of a round trip, here and in ns-3, and draws slowdowns.
compare() {
	sed 's/window: 16MiB/window: 160KB/; s/first: cnp+ack/first: none/' "$2" >"$1-window.yaml"
	../ramjet sim "$2" --csv "$1-dcqcn" >/dev/null
	../ramjet sim "$1-window.yaml" --csv "$1-dcqcn_vwin" >/dev/null
	python3 "$here/simulators.py" flows "$1-dcqcn/flows.csv" >"mix/$1.txt"
	for control in dcqcn dcqcn_vwin; do
		config "$1" fat $control
		"$ns3" "mix/config_fat_$1_$control.txt" >/dev/null
	done
	python3 "$here/simulators.py" slowdowns "$1" "$3"
}
compare fb fbhadoop.yaml fbhadoop-ns3.svg
compare ws websearch.yaml websearch-ns3.svg
compare hi hadoop-incast.yaml hadoop-incast-ns3.svg
