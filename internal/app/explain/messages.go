// SPDX-License-Identifier: Apache-2.0

package explain

// message is a text that a program or a driver prints beside statuses, events and failed calls.
type message struct {
	name    string // the program and the subject
	pattern string // of the line, in lower case
	level   level
	means   string
	causes  []Cause
}

var messageTable = []message{
	{"perftest: the other side", `unable to connect the hca's through the link|failed to exchange data between server and clients|unable to (read|write) (to|from) socket/rdma_cm|couldn't read remote address|failed to close connection between|failed to sync between server and client|unable to set up socket connection|unable to init the socket connection`, consequence,
		"Client and server do not agree, or one of them has ended. The other side's output says why.", []Cause{
			{"The other side failed first.", "the output at the other end", "Mend what that says."},
			{"The two programs, or their flags, differ.", "ib_write_bw --version at both ends",
				"Use one version, and the same flags: -R, -x, -q, -s, -c."},
			{"The server does not run, or a firewall drops TCP port 18515.", "ss -ltn | grep 18515 at the server",
				"Start the server first; admit the port."}}},
	{"perftest: GID types", `found incompatibility issue with gid types`, cause,
		"The two ends take GIDs of different types, RoCE v1 and v2, or of different address families.", []Cause{
			{"Each side chose a GID index by itself, and the tables differ.",
				"show_gids at both ends; ramjet devices -v DEVICE",
				"Give each side the index of its RoCE v2 GID: -x INDEX."},
			{"One side has IPv4 and the other IPv6.", "show_gids at both ends",
				"Take GIDs of one family; -6 in perftest for IPv6."}}},
	{"a GID that is not there", `(couldn't|could not|can't|cannot|failed to|unable to|no suitable|no valid|no usable) (find |get |read |query |obtain )?(an? |the )?(suitable |local |source |valid |usable |roce v2 )?s?gid\b|can't read sgid|gid index \d+ (is )?(invalid|not (valid|found))|invalid (sgid|gid) ?index|no roce ?v2 gid|sgid_index.{0,20}(invalid|not)`, cause,
		"The port's GID table has no entry that fits: by index, by address, or of type RoCE v2.", []Cause{
			{"The interface has no IP address, so that the table has only link-local entries.",
				"ip addr; show_gids; ramjet doctor", "Give it an address: ip addr add ADDRESS/LENGTH dev INTERFACE."},
			{"The index is that of another host or another port: tables differ.", "show_gids; ramjet devices -v DEVICE",
				"Take the index of this port's RoCE v2 entry, or let the program choose (-R in perftest, UCX_IB_GID_INDEX=auto, NCCL_IB_GID_INDEX=-1)."},
			{"The interface is down, or in another network namespace than the device.",
				"rdma link; ip link; rdma system", "ip link set INTERFACE up; give the container the interface."}}},
	{"a device that is not there", `(ib|rdma|infiniband|verbs|hca) device '?"?\S+"? (not found|wasn't found|was not found|does not exist)|no device (named|called) \S+|no such (ib|rdma) device|net/ib : no device found`, cause,
		"No RDMA device of this name is visible to the process.", []Cause{
			{"The name is another: after an update devices are called rocep1s0f0 or ibp1s0, not mlx5_0.",
				"rdma link; ibv_devices; ramjet devices",
				"Use the name that is listed (NCCL_IB_HCA, UCX_NET_DEVICES, -d)."},
			{"The NIC's RDMA module is not loaded.", "lsmod | grep -E 'mlx5_ib|irdma|bnxt_re'; ramjet doctor",
				"modprobe it."},
			{"It runs in a container, or a network namespace, that does not have it.",
				"ls /sys/class/infiniband /dev/infiniband; rdma system",
				"docker run --device=/dev/infiniband; rdma dev set DEVICE netns NAME."}}},
	{"libibverbs: no driver for a device", `no userspace device-specific driver found for`, cause,
		"The kernel has the device, and libibverbs has no provider for it.", []Cause{
			{"The package with the providers is missing (Debian: ibverbs-providers).", "ls /usr/lib/*/libibverbs",
				"apt install ibverbs-providers, or the vendor's package."},
			{"rdma-core is older than the adapter or its driver.", "ibv_devinfo; dpkg -l rdma-core",
				"Update rdma-core."},
			{"A container has another version than the vendor's driver on the host.",
				"ls /usr/lib/*/libibverbs in the container", "Install the same in the container."}}},
	{"libibverbs: a driver that cannot be loaded",
		`couldn't load driver|couldn't (open|stat|read) config (directory|file)|couldn't allocate driver`, notice,
		"A provider of libibverbs is named in its configuration and not installed. It matters only if it is that of your adapter.", []Cause{
			{"Packages of a vendor were removed in part.", "ls /etc/libibverbs.d /usr/lib/*/libibverbs",
				"Remove the file of /etc/libibverbs.d, or install the provider."}}},
	{"libibverbs: the kernel's ABI", `does not support the kernel abi|kernel abi version \d+`, cause,
		"The user space library and the kernel's driver do not fit each other.", []Cause{
			{"The driver in the kernel was replaced by a vendor's, and the library was not, or the other way round.",
				"modinfo mlx5_ib | grep version; dpkg -l | grep -E 'rdma-core|ibverbs'",
				"Install both from one source."},
			{"A container has an old library.", "dpkg -l libibverbs1 in the container", "Update it."}}},
	{"libibverbs: fork", `ibv_fork_init\(\) was disabled|fork\(\)-safety requested`, cause,
		"The program forks, and its registered memory is not safe from that: pages can be copied under the adapter.",
		[]Cause{
			{"The program, or MPI, forks after memory was registered (system(), popen()).",
				"strace -f -e trace=clone,fork PROGRAM",
				"Fork before, or set RDMAV_FORK_SAFE=1; kernel 5.12 and later copy in the child."}}},
	{"libibverbs: RLIMIT_MEMLOCK", `rlimit_memlock is \d+ bytes|max locked memory|user memlock|memlock (limit|too)|ulimit -l|allocate some locked memory|registering? part of your physical memory`, cause,
		"The process may pin too little memory for RDMA.", memlock},
	{"librdmacm: no device", `librdmacm: .*(no rdma devices found|unable to (get|open)|couldn't)`, cause,
		"librdmacm finds no device, or cannot reach the kernel's connection manager.",
		append([]Cause{noModules[0], noManager[0]}, noModules[1])},

	{"NCCL: no plugin", `net/plugin ?:? ?(no plugin found|could not find|failed to find|loaded net plugin ncclnone)|libnccl-net\.so`, notice,
		"NCCL looked for a network plugin and found none. That is no error: it uses its own InfiniBand and sockets.",
		nil},
	{"NCCL: no libibverbs", `failed to open libibverbs`, cause,
		"NCCL and RCCL cannot load libibverbs and use TCP in its place.", []Cause{
			{"libibverbs is not installed in the container.", "ldconfig -p | grep ibverbs",
				"apt install libibverbs1 ibverbs-providers."},
			{"It is there and not where the loader looks.", "echo $LD_LIBRARY_PATH",
				"Add its folder, or set NCCL_IBVERBS_LIB."}}},
	{"NCCL: devices that do not fit",
		`attempted to (connect|merge) incompatible devices|device is incompatible with the local`, cause,
		"NCCL tries to connect adapters of different link layers, InfiniBand and RoCE.", []Cause{
			{"Both sorts are in the hosts, and NCCL takes all.", "ibv_devinfo | grep -E 'hca_id|link_layer'",
				"Name those of one sort: NCCL_IB_HCA=mlx5_0,mlx5_1."}}},
	{"NCCL: no interface", `no (ip|socket) interface found|no interface found`, cause,
		"NCCL finds no IP interface for its own set-up, which goes over TCP.", []Cause{
			{"NCCL_SOCKET_IFNAME names one that is not here.", "env | grep NCCL; ip addr",
				"Name one that all hosts have: NCCL_SOCKET_IFNAME=eth0."},
			{"The container has only the loopback interface.", "ip addr in the container",
				"Run it with --network=host."}}},
	{"NCCL: the peer's TCP", `(socketstartconnect|socketpollconnect|ncclsocket\w*|ncclossocket\w*|call to (connect|recv|send|accept)).{0,90}(refused|timed out|no route|reset|abort|unreachable|closed)|connection closed by (remote peer|localrank)|net/ib : accept failed|socket recv.* closed`, consequence,
		"The TCP connection by which NCCL's processes set up is gone. Another process failed first, or cannot be reached.", []Cause{
			{"Another rank ended: this is its echo.", "the output of all ranks, the earliest first",
				"Mend what the first one says."},
			{"The address is on a network that the peer does not reach, such as docker0.",
				"NCCL_DEBUG=INFO prints the interface; ip route get PEER",
				"NCCL_SOCKET_IFNAME=eth0, or exclude with ^docker0."},
			{"A firewall drops NCCL's ports, which are chosen by the system.", "nft list ruleset",
				"Admit all TCP between the hosts."}}},
	{"NCCL: an error code", `unhandled system error|remote process exited or there was a network error|ncclsystemerror|ncclremoteerror|ncclinternalerror`, consequence,
		"NCCL's error code names no cause: ncclSystemError is a call that failed, ncclRemoteError a peer that ended. A WARN line before it has the cause.", []Cause{
			{"Another process failed first.", "NCCL_DEBUG=WARN for all ranks; the earliest WARN",
				"ramjet explain that line."},
			{"A call of libibverbs failed here.", "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET",
				"ramjet explain that line."}}},

	{"UCX: no usable transports or devices", `no usable transports/devices|(transport|device)s? '?\S+'? (is|are) not available, please use one or more of`, cause,
		"UCX_TLS and UCX_NET_DEVICES leave nothing: no transport that is asked for works on a device that is asked for.", []Cause{
			{"A name in UCX_NET_DEVICES is another here: it is DEVICE:PORT, such as mlx5_0:1.",
				"ucx_info -d | grep -E 'Transport|Device'; env | grep UCX",
				"Take a name that is listed, or unset UCX_NET_DEVICES."},
			{"The transports fit other devices: tcp takes eth0, rc takes mlx5_0:1.",
				"ucx_info -d | grep -B2 -A2 Device",
				"UCX_TLS=rc,self,sm with mlx5_0:1, or UCX_TLS=tcp,self,sm with eth0."},
			{"UCX was built without verbs, or finds no device.", "ucx_info -v; ibv_devices",
				"Install UCX with rdma-core; ramjet doctor for the device."}}},
	{"UCX: no transport to the peer", `no (active messages|remote registered memory access|auxiliary|am|rma|amo|tag|\w+( \w+)?) transport to |destination is unreachable`, cause,
		"UCX has no transport that reaches the peer with what the program needs.", []Cause{
			{"UCX_TLS has no transport between hosts, or no self or sm for those of one host.", "env | grep UCX_TLS",
				"Unset it, or add: rc,ud,self,sm."},
			{"The two hosts' devices are on different networks or link layers.", "ucx_info -d at both ends",
				"UCX_NET_DEVICES with one that reaches the peer."},
			{"The versions of UCX differ.", "ucx_info -v at both ends", "Use one version."}}},
	{"UCX: shared memory", `not enough memory to write total of|check that /dev/shm`, cause,
		"/dev/shm is too small for the memory that UCX shares between processes.", []Cause{
			{"A container has 64 MiB of it.", "df -h /dev/shm", "docker run --shm-size=8g, or --ipc=host."},
			{"Segments of processes that have ended are left.", "ls -l /dev/shm", "Remove them."}}},
	{"UCX: an endpoint", `failed to resolve ucx endpoint|ucp_ep_create.* failed|error endpoint timeout was not handled|error callback is (not )?installed|will not be handled since no error callback`, consequence,
		"An endpoint of UCX failed, and the program handles no errors. A line before it has the cause.", []Cause{
			{"The connection failed: a completion with an error is above.", "the lines with ib_mlx5_log or completion",
				"ramjet explain that line."},
			{"The peer's process ended.", "the output of the other processes", "Mend what the first one says."}}},
	{"UCX: a GID", `failed to find a gid which matches|both gid_index and roce_subnet_list`, cause,
		"UCX finds no GID that fits UCX_IB_GID_INDEX, or the subnets that are asked for.", []Cause{
			{"The index is that of another host.", "show_gids; env | grep UCX_IB", "UCX_IB_GID_INDEX=auto."},
			{"The interface has no IP address.", "ip addr", "Give it one."}}},

	{"libfabric: a provider's connection", `cm error event \S+|non-application generated cm reject`, cause,
		"A connection of libfabric's verbs provider failed. The event and its status say why.", noAnswer},
	{"EFA: the peer does not respond", `unresponsive (receiver|remote)|efa_io_comp_status|receiver not ready|unreachable remote`, cause, "An EFA device got no answer of the peer.", []Cause{
		{"The security group does not admit all traffic to and from itself.",
			"the security group's rules, inbound and outbound", "Allow all traffic from and to the group itself."},
		{"The peer's process ended.", "its output", "Mend what it says."},
		{"The instances are in different subnets, or availability zones: EFA is not routed.", "the instances' subnets",
			"Put them in one subnet."}}},

	{"Open MPI: ucx is not chosen", `pml ucx cannot be selected|no components were able to be opened in the pml framework|pml_ucx\.c.*(not|fail)`, cause, "Open MPI cannot use UCX as its point-to-point layer.", []Cause{
		{"UCX finds no device that it takes by itself.", "ucx_info -d | grep Device",
			"mpirun --mca pml_ucx_devices any --mca pml_ucx_tls any."},
		{"UCX_NET_DEVICES names a device that is not here, or has more than 15 characters.",
			"env | grep UCX; ramjet doctor", "Take a name that ucx_info -d lists."},
		{"Open MPI was built without UCX.", "ompi_info | grep ucx", "Install one with it."}}},
	{"Open MPI: processes that do not reach each other",
		`unable to reach each other for|at least one pair of mpi processes are unable`, cause,
		"Open MPI has no transport between two of its processes.", []Cause{
			{"--mca btl leaves out what is needed, often self.", "the command line of mpirun",
				"Add self and vader or sm; or leave btl out and use --mca pml ucx."},
			{"Hosts have different adapters, or one has none that is active.",
				"ibv_devinfo | grep -E 'hca_id|state' on all hosts",
				"Name those that reach each other: UCX_NET_DEVICES."},
			{"A firewall drops TCP between the hosts.", "nft list ruleset", "Admit it."}}},
	{"Open MPI: openib", `error initializing an openfabrics device|no openfabrics connection schemes|openfabrics \(openib\) btl|no preset parameters were found for the device|btl_openib`, cause,
		"The old openib transport of Open MPI does not work with this device. It is gone in version 5: UCX takes its place.", []Cause{
			{"UCX is there and does the work: then it is only a warning.", "ompi_info | grep -i ucx",
				"mpirun --mca pml ucx --mca btl ^openib."},
			{"The device is newer than its table of parameters.", "ompi_info | grep 'Open MPI:'",
				"Update Open MPI, or use UCX."},
			{"RoCE needs a connection by rdma_cm.", "ibv_devinfo | grep link_layer",
				"--mca btl_openib_cpc_include rdmacm, or UCX."}}},
	{"Open MPI: libfabric", `failed an ofi libfabric library call|ofi mtl was not able to find endpoint`, cause,
		"A call of libfabric failed below Open MPI. Its error is in the lines that follow.", []Cause{
			{"The provider cannot use the device.", "fi_info -p verbs; FI_LOG_LEVEL=warn",
				"ramjet explain what that says."},
			{"Hosts have different providers.", "fi_info -l on all hosts",
				"mpirun --mca mtl_ofi_provider_include NAME."}}},

	{"Ceph: the device", `rdmastack.*(device|failed)|infiniband .*(port not found|open .*device failed|rdma device.*not)`, cause, "Ceph's RDMA messenger finds no device or port.", []Cause{
		{"ms_async_rdma_device_name names another.", "ibv_devices; ceph config get osd ms_async_rdma_device_name",
			"Set the name that is listed."},
		{"The service may not open the device.", "systemctl show ceph-osd@0 | grep -E 'Device|LimitMEMLOCK'",
			"LimitMEMLOCK=infinity, PrivateDevices=no in the unit."},
		{"The port is down.", "ibv_devinfo | grep state", "Bring it up."}}},
	{"Ceph: a connection that does not work", `connection between server and client not working`, cause,
		"A work request of Ceph got no answer: its completion was transport retry counter exceeded.", retryCauses},

	{"mlx5: a completion with an error",
		`mlx5: .*got completion with error|dump error cqe|requestor error cqe|responder error cqe`, consequence,
		"An mlx5 adapter completed a work request with an error. What follows it is the completion in hex: its last 16 bytes have the syndrome.", []Cause{
			{"The lines of the dump are not here.", "dmesg | grep -A5 'dump error cqe'; the program's output",
				"Give ramjet explain all of them: ramjet explain - <FILE."}}},
	{"mlx5: a command of the firmware failed",
		`mlx5_cmd_\w+:\d+|mlx5_core.*\(0x[0-9a-f]+\) op_mod|op_mod\(0x[0-9a-f]+\) failed|devx_obj_create\(\w+\) failed`,
		causeNumbered, "The adapter's firmware refused a command of the driver. The status says how; what the syndrome means only NVIDIA knows.", []Cause{
			{"A limit is reached: queue pairs, regions, memory of the adapter (limits exceeded, no resources).",
				"rdma resource show; mlxconfig -d PCI query",
				"Use fewer objects; raise the limit in the firmware's settings."},
			{"A parameter that this firmware does not know (bad parameter, bad operation).",
				"ethtool -i INTERFACE | grep firmware; modinfo mlx5_core | grep version",
				"Update the firmware, or use the driver that fits it."},
			{"The adapter is in a bad state (bad system state, internal error).",
				"dmesg | grep -i health; devlink health", "devlink health recover, or a cold start."}}},
	{"mlx5: the adapter's health", `health (poll|care|compromised|counter)|device's health|firmware (fatal|internal) error|fw fatal|mlx5_health|health_care`, cause,
		"The adapter itself reports that it does not work.", []Cause{
			{"The firmware failed.", "devlink health show; dmesg | grep mlx5",
				"devlink health recover; update the firmware."},
			{"It is too hot, or loses power.", "mget_temp -d PCI; sensors", "Cool it; look at the slot and its power."},
			{"The PCI link failed.", "lspci -vv -s PCI | grep -E 'LnkSta|CESta'", "Seat the card; disable ASPM."}}},
	{"mlx5: UMR", `reg umr failed|umr (mkey|cqe)`, cause, "A memory key could not be changed by the adapter.", []Cause{
		{"A known fault of some kernels with on demand paging.", "uname -r",
			"Update the kernel, or register without IBV_ACCESS_ON_DEMAND."},
		{"The queue pair of the driver has failed.", "dmesg | grep -B5 'reg umr'", "Mend the first error there."}}},
	{"bnxt_re: a queue pair", `bnxt_re.*(failed to (modify|create|destroy) (hw )?qp|hw qp)`, cause,
		"The Broadcom adapter did not change or create a queue pair.", []Cause{
			{"Driver and firmware do not fit.", "ethtool -i INTERFACE; dmesg | grep bnxt",
				"Install both from one release."},
			{"The GID is gone, or RoCE is off for the port.", "show_gids; rdma link",
				"Give the interface its address; enable RoCE in the adapter's settings."},
			{"No queue pair is left.", "rdma resource show", "Close some."}}},
	{"irdma: an asynchronous event", `irdma.*\bae_?id\b|abnormal ae_id|\birdma\b.*\bae\b`, cause,
		"An Intel adapter ended a connection. The number of the event says why.", []Cause{
			{"A key or range that is wrong, at the side that the event names.", "ramjet explain REM_ACCESS_ERR",
				"As for that."},
			{"The connection was lost.", "ip -s link; dmesg", "Look at link, MTU and flow control."}}},
	{"a link that lost packets",
		`(rx|tx)_discards|out_of_sequence|packet_seq_err|rx_prio\d_(discard|pause)|local_ack_timeout_err`, notice,
		"A counter of the adapter. Growing, it says that packets are lost: the network drops them, and RDMA sends again.", []Cause{
			{"Flow control (PFC) is off, or not on the same priority at all hops.",
				"ramjet doctor; dcb pfc show dev INTERFACE; the switch",
				"The same priority everywhere, with ECN (DCQCN) on."},
			{"The receiver is too slow for its link (PCI, IOMMU, memory).",
				"ethtool -S INTERFACE | grep -E 'discard|pci'", "Wider slot; iommu=pt; NUMA node of the NIC."},
			{"A cable or transceiver corrupts packets.", "ethtool -S INTERFACE | grep -iE 'crc|symbol'",
				"Replace it."}}},
	{"NVMe over RDMA: a connection", `nvme.*(rdma connection establishment failed|failed to connect queue|rdma_resolve|connect rejected)`, cause, "The host could not connect to an NVMe target over RDMA.", noAnswer},
	{"NFS over RDMA: a connection", `(rpcrdma|xprtrdma|svcrdma).*(closed|failed|reject|refused|error)`, cause,
		"A connection of NFS over RDMA ended or was not made.", []Cause{
			{"The server has no listener for RDMA.", "cat /proc/fs/nfsd/portlist at the server",
				"echo 'rdma 20049' >/proc/fs/nfsd/portlist; vers and rdma in /etc/nfs.conf."},
			noAnswer[1], noAnswer[2]}},
	{"rxe: no memory region", `rdma_rxe:.*(failed|invalid|err)|siw:.*(failed|invalid|err)`, cause,
		"A device in software of the kernel reports an error.", []Cause{
			{"The interface below it is down or has changed its MTU.", "rdma link; ip link",
				"Remove it and add it again: rdma link del, rdma link add."},
			{"A faulty request of a program.", "dmesg | tail; ramjet explain STATUS of its completion",
				"As for that."}}},
}

// messages are the entries of messageTable.
func messages() (all []Entry) {
	for i := range messageTable {
		m := &messageTable[i]
		all = append(all, Entry{Message, m.name, 0, m.name, nil, m.means, m.causes})
	}
	return all
}

// retryCauses are the causes of a request without an acknowledgement.
var retryCauses = []Cause{
	{"The peer's process has ended, or its queue pair went to ERR or never reached RTR.",
		"rdma resource show qp; ramjet stat qp, at the peer; its own output",
		"Mend the first error there: this one is its echo."},
	{"The peer is not reached: GID, LID or queue pair number is wrong, or a firewall drops UDP port 4791.",
		"ramjet doctor PEER; ping PEER; nft list ruleset",
		"Give the RoCE v2 GID of the right network; admit UDP port 4791."},
	{"Packets are lost: the path MTU is too large for the network (small messages pass, long ones do not), or flow control is off.", "ping -M do -s 4160 PEER; ethtool -S INTERFACE | grep -E 'discard|pause'", "Smaller path MTU, or jumbo frames at every hop; PFC and ECN."},
	{"timeout is too short for the network or for a busy peer: 14 is 67 ms, each step doubles it.",
		"the timeout and retry_cnt of the queue pair", "18 to 22 (NCCL_IB_TIMEOUT, UCX_RC_TIMEOUT), retry_cnt 7."},
}
