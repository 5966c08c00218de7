// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"maps"
	"slices"
)

// failure is a call of libibverbs, librdmacm or libfabric, and the meanings of its errors. The same errno has
// another meaning for each call.
type failure struct {
	call    string
	pattern string // of lines that say that it failed, beside its name and brackets
	means   string // for an errno that errnos does not have, or none
	causes  []Cause
	errnos  map[string]explained // by the name of the errno; its name is left out
}

// memlock are the causes of an ENOMEM that pinning memory gets.
var memlock = []Cause{
	{"The process may pin less memory than it needs (RLIMIT_MEMLOCK).", "ulimit -l; cat /proc/PID/limits",
		"ulimit -l unlimited; LimitMEMLOCK=infinity in the unit of systemd; --ulimit memlock=-1 for a container; memlock in /etc/security/limits.d for logins."},
	{"The device has no object of this kind left.", "rdma resource show; ibv_devinfo -v | grep max_",
		"Close what is not used, or share it: fewer and larger regions, one completion queue for several queue pairs."},
	{"The host, or the process's control group, has no memory left.", "free -m; dmesg | grep -i 'out of memory'",
		"Register less, or give the control group more (memory.max)."},
}

// limits are the causes of an ENOMEM for an object that has a queue.
var limits = []Cause{
	{"The queue's memory is pinned, and the process may not pin so much (RLIMIT_MEMLOCK).",
		"ulimit -l; cat /proc/PID/limits",
		"ulimit -l unlimited; LimitMEMLOCK=infinity in the unit of systemd; --ulimit memlock=-1 for a container."},
	{"The queue is longer than the device allows.", "ibv_devinfo -v | grep -E 'max_(cqe|qp_wr|srq_wr|sge)'",
		"Ask for fewer entries."},
	{"The device, or the control group, has no object of this kind left.",
		"rdma resource show; cat /sys/fs/cgroup/*/rdma.max", "Close what is not used; raise rdma.max."},
}

// noPath are the causes of a queue pair that cannot find its peer.
var noPath = []Cause{
	{"The GID index is that of another network, of RoCE v1, or link-local: the peer's address is not reached from it.",
		"ramjet doctor PEER; show_gids", "Take the RoCE v2 GID of the address that the route uses: -x INDEX (perftest), NCCL_IB_GID_INDEX, UCX_IB_GID_INDEX."},
	{"The peer does not answer ARP or neighbor discovery: it is down, in another VLAN, or its interface has lost its address.", "ping PEER; ip neigh show",
		"Bring up the interface and its address at the peer; give both the same VLAN."},
	{"The two adapters are on networks that are not connected to each other, as in a fabric by rails.",
		"ping -I INTERFACE PEER",
		"Pair adapters that reach each other (NCCL_IB_HCA, NCCL_CROSS_NIC=0), or route between the networks."},
}

// noModules are the causes when there is no RDMA device.
var noModules = []Cause{
	{"The kernel's module ib_uverbs, or that of the NIC, is not loaded.",
		"lsmod | grep -E 'ib_uverbs|mlx5_ib|irdma|bnxt_re|rdma_rxe'; ramjet doctor",
		"modprobe ib_uverbs, and the NIC's module: mlx5_ib, irdma, bnxt_re."},
	{"It runs in a container without the device files.", "ls -l /dev/infiniband",
		"docker run --device=/dev/infiniband --ulimit memlock=-1."},
	{"The machine has no adapter with RDMA.", "lspci | grep -iE 'mellanox|infiniband|ethernet'; rdma link",
		"Use a device in software: rdma link add rxe0 type rxe netdev eth0, or ramjet run -- PROGRAM, which needs no root."},
}

var failures = []failure{
	{call: "ibv_get_device_list", pattern: `failed to get (ib|rdma) devices?( list)?|(no|0) (ib|rdma|infiniband|hca|verbs)( verbs)? devices? (were |was )?(found|detected|present|available)|unable to find the infiniband/roce device`,
		means: "No device of RDMA is visible to the process.", causes: noModules,
		errnos: map[string]explained{
			"ENOSYS": {means: "The kernel does not offer user programs verbs: the module ib_uverbs is not there.",
				causes: noModules},
			"EPERM": {means: "The process may not look at the devices.", causes: noAccess},
		}},
	{call: "ibv_open_device", pattern: `couldn't get context for|failed to open (ib |rdma )?device|unable to open device|open rdma device failed`,
		means: "A device is there and could not be opened.", causes: noAccess,
		errnos: map[string]explained{
			"EACCES": {means: "The process may not open the device's file.", causes: noAccess},
			"EPERM":  {means: "A control group of devices forbids the device's file.", causes: noAccess},
			"ENOENT": {means: "The device's file /dev/infiniband/uverbs… does not exist.",
				causes: []Cause{noModules[1], noModules[0],
					{"udev has not made it.", "ls -l /dev/infiniband /sys/class/infiniband_verbs",
						"udevadm trigger, or restart the service of rdma-core."}}},
			"ENOMEM": {means: "The device has no room for another process, or the process may not pin the pages of its doorbells.", causes: memlock},
		}},
	{call: "ibv_alloc_pd", pattern: `(couldn't|failed to) alloc(ate)? pd`,
		means: "No protection domain could be allocated.", causes: limits[2:],
		errnos: map[string]explained{"ENOMEM": {means: "The device has no protection domain left, or the host no memory.", causes: []Cause{limits[2], memlock[2]}}}},
	{call: "ibv_reg_mr", pattern: `(couldn't|could not|failed to|unable to|cannot) (allocate|register|create|reg)( \w+){0,2} (mr|memory region|buffer)s?|reg_mr(_iova2?)? failed|ibv_reg_(dmabuf_)?mr(_iova2?)?|register memory`,
		means: "The memory could not be registered. The line has no errno: the causes are those of the most frequent one, ENOMEM.", causes: memlock,
		errnos: map[string]explained{
			"ENOMEM": {means: "The memory could not be pinned, or the device has no region left.", causes: memlock},
			"EFAULT": {means: "Not all of the memory is mapped, or it is mapped read-only and the region is to be written to.", causes: []Cause{
				{"The address or the length is wrong, or the memory was freed.", "cat /proc/PID/maps",
					"Register what is mapped, before it is freed."},
				{"It is the memory of a GPU, and no module passes it to the NIC.",
					"lsmod | grep -E 'nvidia_peermem|nv_peer_mem'", "modprobe nvidia_peermem, or register by dma-buf."},
				{"It is mapped read-only, such as a string constant or a file.", "grep -n 'r--' /proc/PID/maps",
					"Register it without IBV_ACCESS_LOCAL_WRITE and the remote rights to write."}}},
			"EINVAL": {means: "The access flags do not go together, or the device does not have one of them.",
				causes: []Cause{
					{"Remote write or atomics without local write.", "the access flags in the program",
						"Add IBV_ACCESS_LOCAL_WRITE."},
					{"On demand paging, huge pages or relaxed ordering that the device does not have.",
						"ibv_devinfo -v | grep -A8 -i odp", "Leave the flag out."},
					{"The length is 0, or beyond the device's largest region.", "ibv_devinfo -v | grep max_mr_size",
						"Register less at a time."}}},
			"EOPNOTSUPP": {means: "The device or the kernel cannot register such memory.", causes: []Cause{
				{"On demand paging that the device does not have.", "ibv_devinfo -v | grep -A8 -i odp",
					"Register without IBV_ACCESS_ON_DEMAND."},
				{"dma-buf needs a newer kernel, driver or GPU driver.", "uname -r; dmesg | tail",
					"Kernel 5.12 or later; or nvidia_peermem in its place."},
				{"The file system of the mapping does not let its pages be pinned, such as a DAX file.",
					"findmnt -T FILE", "Copy to ordinary memory."}}},
			"EPROTONOSUPPORT": {means: "The device or the kernel cannot register memory by dma-buf.", causes: []Cause{
				{"The GPU's driver does not export dma-buf: only the open kernel modules do.",
					"cat /proc/driver/nvidia/version", "Install the open modules, or use nvidia_peermem."},
				{"The kernel or the NIC's driver is too old.", "uname -r; modinfo mlx5_ib | head",
					"Kernel 5.12 or later."}}},
		}},
	{call: "ibv_create_cq", pattern: `(couldn't|failed to|unable to) create (a |the )?(\w+ )?cq`,
		means: "No completion queue could be created. The line has no errno: the causes are those of the most frequent one, ENOMEM.", causes: limits,
		errnos: map[string]explained{
			"ENOMEM": {means: "The memory of the completion queue could not be pinned, or the device has none left.",
				causes: limits},
			"EINVAL": {means: "The number of entries, or the vector, is none that the device has.",
				causes: []Cause{limits[1],
					{"The completion vector is too large.", "the num_comp_vectors of ibv_context",
						"Take one below it."}}},
		}},
	{call: "ibv_create_qp", pattern: `(couldn't|failed to|unable to) create (a |rdma )?(\w+ )?qp`,
		means:  "No queue pair could be created. The line has no errno: the causes are those of the most frequent ones.",
		causes: []Cause{limits[1], limits[0], limits[2]},
		errnos: map[string]explained{
			"ENOMEM": {means: "The memory of the queues could not be pinned, the queues are too long, or the device has no queue pair left.", causes: []Cause{limits[0], limits[1], limits[2]}},
			"EINVAL": {means: "The device does not have such a queue pair.", causes: []Cause{limits[1],
				{"The device does not have this type: iWARP has no UD and no UC, EFA has no RC.",
					"ibv_devinfo -v; ramjet devices -v", "Take RC, or on EFA SRD through libfabric."},
				{"More inline data or scatter entries than the device has.", "ibv_devinfo -v | grep max_sge",
					"Ask for less: -I 0 in perftest."}}},
			"EOPNOTSUPP": {means: "The device does not have this type of queue pair.", causes: []Cause{
				{"iWARP has no UD and no UC, EFA has no RC.", "ibv_devinfo | grep -E 'transport|hca_id'",
					"Take a type that it has."},
				{"Raw packets, or DC, on a device without them.", "ibv_devinfo -v", "Use another device."}}},
			"EPERM": {means: "The process may not have such a queue pair.",
				causes: []Cause{{"A queue pair of raw packets takes CAP_NET_RAW.", "capsh --print | grep net_raw",
					"Run it as root, or give it the capability."}}},
		}},
	{call: "ibv_create_srq", pattern: `(couldn't|failed to) create (xrc )?srq`,
		means: "No shared receive queue could be created.", causes: limits,
		errnos: map[string]explained{"ENOMEM": {means: "The memory of the queue could not be pinned, or the device has none left.", causes: limits},
			"EOPNOTSUPP": {means: "The device has no shared receive queues.",
				causes: []Cause{{"The device, or this type of it, has none.", "ibv_devinfo -v | grep max_srq",
					"Work without: --use-srq is left out in perftest."}}}}},
	{call: "ibv_modify_qp to INIT",
		pattern: `(modify|modifying|change|transition|move)\b.{0,40}\b(to|state) init\b|next state init\b`,
		means:   "The queue pair could not go to INIT.", causes: []Cause{
			{"The port number or the index of the P_Key does not exist.", "ibv_devinfo -v | grep -E 'port:|pkey'",
				"Ports count from 1; take P_Key index 0."},
			{"It is not in RESET.", "rdma resource show qp", "Create a new queue pair, or move it to RESET first."}}},
	{call: "ibv_modify_qp to RTR", pattern: `(modify|modifying|change|transition|move)\b.{0,40}\b(to|state) (rtr|ready to receive)\b|next state rtr\b`,
		means: "The queue pair could not be pointed at its peer: GID, LID, path MTU or queue pair number do not fit.",
		causes: []Cause{
			{"The GID index is empty, or that of another network, or none was given on RoCE.",
				"ramjet devices -v DEVICE; show_gids",
				"Give the index of the RoCE v2 GID: -x INDEX (perftest), NCCL_IB_GID_INDEX, or connect by rdma_cm (-R)."},
			{"The peer's address is not reached: it does not answer ARP or neighbor discovery.",
				"ping PEER; ip neigh show", "Bring up the peer's interface; compare subnets and VLANs."},
			{"The path MTU is larger than the port's, or the two sides differ.", "ibv_devinfo | grep mtu",
				"Take the smaller active_mtu of both: -m 1024 in perftest."}},
		errnos: map[string]explained{
			"ETIMEDOUT":    {means: "The peer's hardware address was not found in time: its GID's IP address does not answer ARP or neighbor discovery from this port.", causes: noPath},
			"ENETUNREACH":  {means: "No route leads from the local GID's interface to the peer's GID.", causes: noPath},
			"EHOSTUNREACH": {means: "The peer's GID is on this network and nobody answers for it.", causes: noPath},
			"ENODEV":       {means: "The local GID index has no interface: its address is gone, or it is in another network namespace.", causes: noPath},
			"EINVAL":       {means: "An attribute does not fit the port: path MTU, GID index, LID, or queue pair number.", causes: misfits},
		}},
	{call: "ibv_modify_qp to RTS",
		pattern: `(modify|modifying|change|transition|move)\b.{0,40}\b(to|state) rts\b|next state rts\b`,
		means:   "The queue pair could not begin to send.", causes: []Cause{
			{"It never reached RTR: that call failed before.", "the lines above this one", "Mend that first."},
			{"max_rd_atomic is larger than the device's.", "ibv_devinfo -v | grep max_qp_init_rd_atom",
				"Ask for less: -o in perftest."}}},
	{call: "ibv_modify_qp", pattern: `failed to modify (the )?(hw )?qp\b`,
		means: "A queue pair could not change its state. The line does not say to which: the causes are those of RTR, which fails most often.", causes: noPath,
		errnos: map[string]explained{
			"ETIMEDOUT":    {means: "The peer's hardware address was not found in time, on the way to RTR: its GID's IP address does not answer ARP or neighbor discovery from this port.", causes: noPath},
			"ENETUNREACH":  {means: "No route leads from the local GID's interface to the peer's GID.", causes: noPath},
			"EHOSTUNREACH": {means: "Nobody answers for the peer's GID.", causes: noPath},
			"ENODEV":       {means: "The local GID index has no interface: its address is gone, or it is in another network namespace.", causes: noPath},
			"EINVAL": {means: "An attribute is missing, does not fit the port, or the state before is another.",
				causes: []Cause{
					{"On RoCE no GRH is given, or the GID index is empty.", "show_gids; ramjet devices -v DEVICE",
						"Set is_global and sgid_index."},
					{"The path MTU is larger than the port's.", "ibv_devinfo | grep mtu",
						"Take the smaller active_mtu of both sides."},
					{"A state was left out, or an attribute of its mask.", "rdma resource show qp",
						"RESET, INIT, RTR, RTS, each with the attributes that it takes (IBTA 11.2.5.2)."}}},
		}},
	{call: "ibv_create_ah", pattern: `(couldn't|failed to|unable to) create (the )?(ah|address handle)`,
		means: "No address handle could be made: the peer's GID is not reached.", causes: noPath},
	{call: "ibv_post_send", pattern: `(couldn't|failed to|unable to) post send|post[ _]send (error|failed)`,
		means: "The send queue did not take the work request.", causes: fullSend,
		errnos: map[string]explained{
			"ENOMEM": {means: "The send queue is full. It has nothing to do with memory.", causes: fullSend},
			"EINVAL": {means: "The queue pair is not in RTS, or the work request is one that it cannot carry out.",
				causes: []Cause{
					{"The queue pair is not connected yet, or has failed.", "rdma resource show qp; ramjet stat qp",
						"Wait for RTS; look for the first completion with an error."},
					{"Too many entries, too much inline data, or an opcode that this type does not have.",
						"ibv_devinfo -v | grep max_sge", "Compare with what the queue pair was created with."}}},
		}},
	{call: "ibv_post_recv",
		pattern: `(couldn't|failed to|unable to) post (srq )?rec(v|eive)s?|post[ _]rec(v|eive) (error|failed)`,
		means:   "The receive queue did not take the receive.", causes: fullReceive,
		errnos: map[string]explained{
			"ENOMEM": {means: "The receive queue is full, or the queue pair has failed and takes nothing. It has nothing to do with memory.", causes: fullReceive},
			"EINVAL": {means: "The queue pair is in RESET, or the receive has too many entries.", causes: []Cause{
				{"Receives are posted before INIT.", "the program", "Move the queue pair to INIT first."},
				{"More entries than max_recv_sge.", "the program", "Create the queue pair with more, or use fewer."}}},
		}},
	{call: "ibv_poll_cq", pattern: `poll(ing)? (send |recv |receive )?cq failed|failed to poll( the)?( \w+)? cq`,
		means: "The completion queue itself has failed, not a completion in it.",
		causes: []Cause{
			{"The queue overflowed: it has fewer entries than completions that can come.",
				"IBV_EVENT_CQ_ERR among the asynchronous events", "Create it with the sum of the queues that use it."},
			{"The device was reset or removed.", "dmesg | tail -50", "Open the device again."}}},
	{call: "rdma_create_event_channel", pattern: `unable to open /dev/infiniband/rdma_cm|(couldn't|failed to) create (rdma )?event channel|unable to open rdma_cm|unable to get rdma device list`,
		means: "The connection manager of the kernel cannot be opened.", causes: noManager,
		errnos: map[string]explained{"ENODEV": {means: "The module rdma_ucm is not loaded.", causes: noManager},
			"ENOENT": {means: "/dev/infiniband/rdma_cm does not exist.", causes: noManager},
			"EACCES": {means: "The process may not open /dev/infiniband/rdma_cm.", causes: noAccess}}},
	{call: "rdma_create_id", pattern: ``, means: "No id of a connection could be made.", causes: noManager,
		errnos: map[string]explained{"ENODEV": {means: "The module rdma_ucm is not loaded, or there is no RDMA device.",
			causes: noManager}}},
	{call: "rdma_bind_addr", pattern: `failed to bind rdma[ _]cm|rdma_bind`, means: "The address could not be bound.",
		causes: bindCauses, errnos: map[string]explained{
			"ENODEV":        {means: "No RDMA device has the address.", causes: noDeviceFor},
			"EADDRNOTAVAIL": {means: "The address is none of this host.", causes: noDeviceFor},
			"EADDRINUSE":    {means: "Another listener has the port.", causes: bindCauses}}},
	{call: "rdma_listen", pattern: `failed to listen on rdma`, means: "Nobody can connect: the id does not listen.",
		causes: bindCauses,
		errnos: map[string]explained{"EADDRINUSE": {means: "Another listener has the port.", causes: bindCauses}}},
	{call: "rdma_resolve_addr", pattern: `rdma[ _]resolve addr`, means: "The peer's address could not be resolved.",
		causes: noDeviceFor, errnos: map[string]explained{
			"ENODEV": {means: "The interface that the route to the peer uses has no RDMA device.",
				causes: noDeviceFor},
			"ENETUNREACH": {means: "No route leads to the peer.",
				causes: []Cause{{"No interface has an address of its network.", "ip route get PEER",
					"Add the address or the route."}, noDeviceFor[1]}},
			"ETIMEDOUT": {means: "The peer does not answer ARP or neighbor discovery.", causes: noPath[1:]},
			"EINVAL":    {means: "The address family, or the source address, does not fit.", causes: noDeviceFor}}},
	{call: "rdma_resolve_route", pattern: ``, means: "No path to the peer was found.", causes: noRoute,
		errnos: map[string]explained{"ETIMEDOUT": {means: "The subnet administrator did not answer.",
			causes: noRoute}}},
	{call: "rdma_connect", pattern: `failed to connect (rdma[ _]cm|through rdma cm)|unable to connect \(retries`,
		means: "The connection was not made. The event of the connection manager says why.", causes: noAnswer},
	{call: "rdma_accept", pattern: `failed to accept rdma cm`, means: "The connection could not be accepted.",
		causes: []Cause{
			{"The client gave up meanwhile.", "the client's output", "Accept sooner, or let it wait longer."},
			{"No receive queue or queue pair: the attributes do not fit the device.", "ibv_devinfo -v",
				"Ask for less."}}},
	{call: "rdma_join_multicast", pattern: `couldn't (un)?register the mcast group|attach qp to multicast`,
		means: "The multicast group was not joined.", causes: noRoute},
	{call: "fi_getinfo", pattern: `no data available|fi_enodata`,
		means: "No provider of libfabric has what was asked for.", causes: noProvider,
		errnos: map[string]explained{"ENODATA": {means: "No provider of libfabric fits the hints: provider, endpoint type, capabilities and address.", causes: noProvider}}},
	{call: "fi_endpoint", pattern: ``, means: "The provider could not make the endpoint.",
		causes: []Cause{limits[0], limits[1], limits[2]}},
	{call: "fi_mr_reg", pattern: ``, means: "The provider could not register the memory.", causes: memlock,
		errnos: map[string]explained{"ENOMEM": {means: "The memory could not be pinned, or the device has no region left.", causes: memlock}}},
}

var (
	noAccess = []Cause{
		{"The file's mode does not let this user open it.", "ls -l /dev/infiniband; id",
			"chmod 666 /dev/infiniband/uverbs* /dev/infiniband/rdma_cm, or a rule of udev."},
		{"A container does not have the device.", "cat /proc/1/cgroup; ls /dev/infiniband",
			"docker run --device=/dev/infiniband."},
		{"The service may use only some devices.", "systemctl show UNIT | grep Device",
			"DeviceAllow=char-infiniband_verbs rw in the unit."},
	}
	noManager = []Cause{
		{"The module rdma_ucm is not loaded.", "lsmod | grep rdma_ucm; ls -l /dev/infiniband/rdma_cm",
			"modprobe rdma_ucm."},
		{"A container does not have /dev/infiniband/rdma_cm.", "ls -l /dev/infiniband",
			"docker run --device=/dev/infiniband."},
		{"The file's mode does not let this user open it.", "ls -l /dev/infiniband/rdma_cm; id",
			"chmod 666 /dev/infiniband/rdma_cm, or a rule of udev."},
	}
	noDeviceFor = []Cause{
		{"The route to the peer leaves by an interface without RDMA, such as the management network.",
			"ip route get PEER; rdma link; ramjet doctor PEER",
			"Give the peer's address in the RDMA network, or bind to the local one first."},
		{"The NIC's RDMA module is not loaded, so that its interface has no device.", "rdma link; ramjet doctor",
			"modprobe the NIC's module: mlx5_ib, irdma, bnxt_re; or rdma link add rxe0 type rxe netdev eth0."},
		{"The interface is in another network namespace than the device.", "rdma system; ip link",
			"Move the device too: rdma dev set DEVICE netns NAME."},
	}
	noRoute = []Cause{
		{"No subnet manager runs in the InfiniBand fabric.", "sminfo; ibstat | grep -E 'State|SM lid'",
			"systemctl start opensm, on one host or on the switch."},
		{"The subnet manager has no path: partitions differ, or a cable is pulled.",
			"saquery -p --src-to-dst LID:LID; ibnetdiscover", "Give both ports one partition; look at the cables."},
		{"The subnet administrator is too busy to answer.", "saquery -c; perfquery",
			"Ask again, with a longer timeout; cache paths (ibacm)."},
	}
	noAnswer = []Cause{
		{"No server listens there.", "ss -ltn; rdma resource show cm_id at the peer",
			"Start it first, with the same port."},
		{"A firewall drops the packets.", "nft list ruleset; iptables -S",
			"Admit UDP port 4791 (RoCEv2) or the TCP port (iWARP)."},
		{"The address is that of another interface.", "ip route get PEER; ramjet doctor PEER",
			"Give the address of the peer's RDMA interface."},
	}
	bindCauses = []Cause{
		{"Another process has the port, perhaps an older run of the same program.",
			"rdma resource show cm_id; ss -ltnp", "End it, or take another port."},
		{"No RDMA device has the address.", "rdma link; ip addr",
			"Bind to the address of the RDMA interface, or to all (0.0.0.0)."},
		{"Ports below 1024 take CAP_NET_BIND_SERVICE.", "id", "Take a higher port."},
	}
	fullSend = []Cause{
		{"The program posts faster than it polls.",
			"the number of outstanding work requests in the program; ramjet stat qp",
			"Poll the completion queue, then post again."},
		{"No work request was signaled: unsignaled ones keep their places until a later, signaled one completes.",
			"IBV_SEND_SIGNALED in the program", "Signal at least one for each length of the queue."},
		{"The queue is too short.", "max_send_wr at creation", "Create the queue pair with more."},
	}
	fullReceive = []Cause{
		{"More receives are posted than max_recv_wr.", "max_recv_wr at creation",
			"Post one for each completion, or create the queue with more."},
		{"The queue pair has failed, and some drivers take no receive then.",
			"rdma resource show qp; the first completion with an error", "Mend that error; connect anew."},
		{"Receives of a queue pair with a shared receive queue go to that one.", "the program",
			"Use ibv_post_srq_recv."},
	}
	misfits = []Cause{
		{"On RoCE no GRH is given, or the GID index is empty.", "ramjet devices -v DEVICE; show_gids",
			"Set is_global and sgid_index: -x INDEX in perftest."},
		{"The path MTU is larger than the port's.", "ibv_devinfo | grep mtu",
			"Take the smaller active_mtu of both sides."},
		{"Address families differ: an IPv4 GID here and an IPv6 one there.", "show_gids at both ends",
			"Choose GIDs of one family."},
	}
	noProvider = []Cause{
		{"The provider is not built, or does not find its library.", "fi_info -l; FI_LOG_LEVEL=warn fi_info -p verbs",
			"Install libfabric with that provider, and rdma-core."},
		{"There is no RDMA device, or its interface has no IP address.", "rdma link; ip addr",
			"Give the interface an address: the verbs provider connects by IP."},
		{"FI_PROVIDER, or the program, asks for a capability that the provider does not have.",
			"fi_info -v -p verbs; env | grep FI_", "For datagram endpoints ask for verbs;ofi_rxm."},
	}
)

// failedCalls are the entries of failures: each call, and each of its errors.
func failedCalls() (all []Entry) {
	for i := range failures {
		f := &failures[i]
		all = append(all, f.entry())
		for _, name := range slices.Sorted(maps.Keys(f.errnos)) {
			all = append(all, f.with(errnoNamed(name)))
		}
	}
	return all
}

// entry returns that of a call that failed with an errno which is not known.
func (f *failure) entry() Entry {
	return Entry{Failed, f.call, 0, f.call + " failed", nil, f.means, f.causes}
}

// with returns the entry of a call that failed with an errno; if the errno is not in its table the entry says so.
func (f *failure) with(n *errno) Entry {
	e := Entry{Kind: Failed, Name: f.call + ": " + n.name, Number: n.number,
		Text: f.call + " failed: " + n.text + " (" + n.name + ")"}
	if known, ok := f.errnos[n.name]; ok {
		e.Means, e.Causes = known.means, known.causes
		return e
	}
	e.Means = f.means + " What " + n.name + " (" + n.text +
		") means of this call is not known here; the causes are those of the call in general."
	e.Causes = f.causes
	return e
}
