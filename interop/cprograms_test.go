// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// cPort is the first of the programs' ports: each pair has one of its own.
const cPort = 18600

// cKind is a kind of programs of which one runs on each side: the arguments of server and client,
// and the output of each when it is done (a regular expression). In arguments SERVER stands
// for the server's address, PORT for its port and GID for the row of the guest's table.
type cKind struct {
	server, client         string
	clientName             string // of its program, where that is another one
	host, guest            string // the program's requirements on this machine, and in the guest
	iwGuest                string // and for siw
	onCM                   bool   // the server listens with the connection manager, not with TCP
	port                   int    // unless 0, where it always listens
	guestServes            bool   // it is no client in the guest
	late                   bool   // its server listens again in the middle, and its client takes that for granted
	serverFirst            bool   // its server sends before its client has
	serverSays, clientSays string
}

// The kinds. Pingpongs and perftest exchange data over TCP with IPv4; the GID decides the
// protocol of the messages.
var (
	cPingpong = &cKind{server: "-c -n 50 -p PORT", client: "-c -n 50 -p PORT SERVER", host: "-g 0",
		guest: "-d rxe0 -g GID", serverSays: "50 iters in", clientSays: "50 iters in"}
	cPerf = &cKind{server: "-F -n 50 -p PORT", client: "-F -n 50 -p PORT SERVER", host: "-x 0",
		guest: "-d rxe0 -u 18 -x GID", clientSays: `(?m)^ \d+ +50 +\d`}
	cPerfOnCM = &cKind{server: "-F -R -n 50 -p PORT", client: "-F -R -n 50 -p PORT SERVER", host: "-x 0",
		guest: "-d rxe0 -u 18 -x GID", iwGuest: "-d siw0",
		onCM: true, late: true, clientSays: `(?m)^ \d+ +50 +\d`}
	cPerfAll = &cKind{server: "-F -a -n 5 -p PORT", client: "-F -a -n 5 -p PORT SERVER", host: "-x 0",
		guest: "-d rxe0 -u 18 -x GID", clientSays: `(?m)^ 8388608 +5 +\d`}
	cRping = &cKind{server: "-s -v -V -p PORT -a SERVER", client: "-c -v -V -C 5 -p PORT -a SERVER",
		onCM: true, serverSays: "rdma-ping-4:", clientSays: "rdma-ping-4:"}
	cMatose = &cKind{server: "-p PORT -b SERVER", client: "-p PORT -s SERVER",
		onCM: true, serverFirst: true, serverSays: matoseDone, clientSays: matoseDone}
	cServerClient = &cKind{server: "-p PORT", client: "-p PORT -s SERVER", clientName: "rdma_client",
		onCM: true, serverSays: "end 0", clientSays: "end 0"}
	cStream = &cKind{server: "-p PORT -b SERVER", client: "-p PORT -s SERVER",
		onCM: true, serverSays: `(?m)^custom .*\d`, clientSays: `(?m)^custom .*\d`}
	// With -T a, rdma-core's client gives up if the server's end comes before it has read all.
	cStreamPolls = &cKind{server: cStream.server, client: cStream.client, onCM: true, guestServes: true,
		serverSays: cStream.serverSays, clientSays: cStream.clientSays}
	cUdaddy = &cKind{server: "-b SERVER", client: "-s SERVER", onCM: true, port: udaddyPort,
		serverSays: "return status 0", clientSays: "return status 0"}
)

// The families of addresses that a program is run over: IPv4 always.
const (
	cIPv6 = 1 << iota
	cIWARP
	cIWARPv6
)

// cPrograms are the programs of TestCPrograms, with their own options.
var cPrograms = []struct {
	*cKind
	argv string
	also int
}{
	{cPingpong, "ibv_rc_pingpong -s 9000 -m 1024", cIPv6},
	{cPingpong, "ibv_rc_pingpong -s 9000 -m 4096 -e", cIPv6},
	{cPingpong, "ibv_uc_pingpong -s 9000 -m 1024 -e", 0},
	{cPingpong, "ibv_uc_pingpong -s 9000 -m 4096", cIPv6},
	{cPingpong, "ibv_ud_pingpong -s 1000", cIPv6},
	{cPingpong, "ibv_ud_pingpong -s 1000 -e", 0},
	{cPingpong, "ibv_srq_pingpong -s 9000 -m 1024", 0},
	{cPingpong, "ibv_srq_pingpong -s 9000 -m 4096 -e", cIPv6},
	{cPerf, "ib_send_bw -s 65536", cIPv6},
	{cPerf, "ib_write_bw -s 65536", cIPv6},
	{cPerf, "ib_write_bw -c UC -s 4096", 0},
	{cPerf, "ib_read_bw -s 65536", cIPv6},
	{cPerf, "ib_atomic_bw -A FETCH_AND_ADD", cIPv6},
	{cPerf, "ib_atomic_bw -A CMP_AND_SWAP", 0},
	{cPerf, "ib_send_lat -s 64", cIPv6},
	{cPerf, "ib_send_lat -s 9001 -e", 0},
	{cPerf, "ib_send_lat -c UD -s 1000", 0},
	{cPerf, "ib_write_lat -s 64", 0},
	{cPerf, "ib_read_lat -s 64", 0},
	{cPerf, "ib_atomic_lat", 0},
	{cPerf, "ib_send_bw -s 65536 -e", 0},
	{cPerf, "ib_send_bw -c UC -s 1000", 0},
	{cPerf, "ib_send_bw -c UD -s 1000 -e", 0},
	{cPerf, "ib_send_lat -c UC -s 1000 -e", 0},
	{cPerf, "ib_write_lat -c UC -s 1000", 0},
	{cPerf, "ib_read_bw -s 65536 -e", 0},
	{cPerf, "ib_read_lat -s 64 -e", 0},
	{cPerf, "ib_atomic_bw -e", 0},
	{cPerf, "ib_atomic_lat -e", 0},
	{cPerfAll, "ib_read_bw", 0},
	{cPerfOnCM, "ib_send_bw -s 65536", cIWARP},
	{cPerfOnCM, "ib_write_bw -s 65536", cIWARP},
	{cPerfOnCM, "ib_read_bw -s 65536", cIWARP},
	{cPerfOnCM, "ib_atomic_bw", 0},
	{cPerfOnCM, "ib_send_lat -s 64", cIWARP},
	{cPerfOnCM, "ib_write_lat -s 64", cIWARP},
	{cPerfOnCM, "ib_read_lat -s 64", cIWARP},
	{cPerfOnCM, "ib_atomic_lat", 0},
	{cPerfOnCM, "ib_send_lat -s 64 -e", 0},
	{cPerfOnCM, "ib_read_bw -s 65536 -e", 0},
	{cPerfOnCM, "ib_send_bw -c UD -s 1000", 0},
	{cPerfOnCM, "ib_send_lat -c UD -s 1000 -e", 0},
	{cRping, "rping -S 64", cIPv6 | cIWARP},
	{cRping, "rping -S 9001", cIPv6 | cIWARP | cIWARPv6},
	{cServerClient, "rdma_server", cIWARP},
	{cMatose, "ucmatose -c 1 -S 70000", cIWARP},
	{cMatose, "ucmatose -c 20 -S 9000", cIPv6 | cIWARPv6},
	{cStream, "rstream -S 64 -C 1 -I 100 -T v", cIPv6 | cIWARP},
	{cStream, "rstream -S 70000 -C 20 -I 2 -T b -T v", cIPv6 | cIWARP | cIWARPv6},
	{cStreamPolls, "rstream -S 9000 -C 20 -I 2 -T a", cIWARP},
	{cStream, "riostream -S 64 -C 1 -I 100 -T v", cIWARP},
	{cStream, "riostream -S 70000 -C 20 -I 2 -T b -T v", cIPv6 | cIWARP},
	{cUdaddy, "udaddy -c 1", 0},
	{cUdaddy, "udaddy -c 20", cIPv6},
}

// TestCPrograms runs rdma-core's examples and perftest as Debian has them on Ramjet's
// libibverbs and librdmacm, each against the same program on rxe. The programs' versions on
// the two sides are from two releases of Debian.
func TestCPrograms(t *testing.T) {
	libs := cLibraries(t)
	for i, p := range cPrograms {
		for j, f := range both {
			if j > 0 && p.also&(1<<(j-1)) == 0 {
				continue
			}
			c := cPair{cKind: p.cKind, program: strings.Fields(p.argv), family: f, libs: libs, at: cPort + i}
			if p.port != 0 {
				c.at = p.port
			}
			name := p.argv
			switch p.cKind {
			case cPerfOnCM:
				name += " -R"
			case cPerfAll:
				name += " -a"
			}
			t.Run(f.toGuest()+"/"+name+"/"+f.name, c.toGuest)
			if !p.guestServes {
				t.Run(f.fromGuest()+"/"+name+"/"+f.name, c.fromGuest)
			}
		}
	}
	c := cPair{family: families[0], libs: libs}
	t.Run("ramjet→rxe/mckey", c.mckeyToGuest)
	t.Run("rxe→ramjet/mckey", c.mckeyFromGuest)
}

// mckeyToGuest and mckeyFromGuest have a sender and a receiver of a multicast group. A sender
// ends without waiting for its sends, which may then be dropped, and a receiver wants all its
// messages: so there are more than it wants.
func (c cPair) mckeyToGuest(t *testing.T) {
	const group = "239.1.2.5"
	g := dialGuest(t, false)
	receiver := g.spawn(0, "mckey", "-b", guestIPv4, "-m", group)
	g.waitJoined(group)
	// The guest's interface is a member before the program's queue pair is.
	for first := true; first || !receiver.ended() && !t.Failed(); first = false {
		sender := c.onRamjet(t, []string{"mckey", "-b", hostIPv4, "-m", group, "-s", "-c", "10"})
		sender.Run()
		c.wantSaid(t, "sender on Ramjet", sender.result(), "return status 0")
	}
	c.wantSaid(t, "receiver on rxe", receiver.wait(programTimeout), "return status 0")
}

func (c cPair) mckeyFromGuest(t *testing.T) {
	const group = "239.1.2.6"
	g := dialGuest(t, false)
	receiver := c.onRamjet(t, []string{"mckey", "-b", hostIPv4, "-m", group})
	if err := receiver.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- receiver.Wait() }()
	for len(ended) == 0 { // until it has joined the group
		c.wantSaid(t, "sender on rxe", g.run(programTimeout, "mckey", "-b", guestIPv4, "-m", group, "-s", "-c", "10"),
			"return status 0")
	}
	c.wantSaid(t, "receiver on Ramjet", receiver.result(), "return status 0")
}

// cLibraries builds Ramjet's C libraries for the test and returns their folder. Where that is
// not possible the test is skipped.
func cLibraries(t *testing.T) string {
	t.Helper()
	probe := exec.Command("gcc", "-fsyntax-only", "-xc", "-")
	probe.Stdin = strings.NewReader("#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\n")
	if err := probe.Run(); err != nil {
		t.Skip("Ramjet's C libraries need gcc, libc6-dev, libibverbs-dev and librdmacm-dev")
	}
	dir := t.TempDir()
	if out, err := exec.Command("../cabi/build.sh", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// cPair is a program on this host and the same one in the guest.
type cPair struct {
	*cKind
	family
	program []string
	libs    string // the folder of Ramjet's libraries
	at      int    // the server's port
}

// toGuest has the server in the guest.
func (c cPair) toGuest(t *testing.T) {
	g := dialGuest(t, c.ipv6)
	if c.late {
		g.t.Cleanup(func() { g.call("netem_off", nil, nil) })
		a := args{"direction": "in", "args": []string{"delay", "400ms"}, "qpn": 1} // packets to its manager
		if c.iwarp() {
			a["iwarp"] = "syn"
		}
		g.call("netem", a, nil)
	}
	var server *job
	client := again(t, func() (client jobResult) {
		if server != nil {
			server.wait(time.Millisecond) // and kills it
		}
		client, server = c.clientOnRamjet(t, g)
		return client
	}, func(client jobResult) string {
		if c.late && refused.MatchString(client.Output) {
			// Where the guest gets no processor, its server may not listen again before the client's second connection
			// comes.
			return "the server did not listen"
		}
		return ""
	})
	c.wantSaid(t, "client on Ramjet", client, c.clientSays)
	limit := programTimeout
	if t.Failed() {
		limit = time.Second // for its output
	}
	c.wantSaid(t, "server on "+c.peer, server.wait(limit), c.serverSays)
}

// clientOnRamjet starts the server, and runs the client.
func (c cPair) clientOnRamjet(t *testing.T, g *guest) (client jobResult, server *job) {
	t.Helper()
	address := c.pick(c.family.guest, guestIPv4)
	argv := c.argv(c.onGuest(), c.server, address, g)
	if c.onCM {
		server = g.spawnCM(uint16(c.at), argv...)
	} else {
		server = g.spawn(c.at, argv...)
	}
	p := c.onRamjet(t, c.forClient().argv(c.onHost(), c.client, address, g))
	p.Run()
	return p.result(), server
}

// fromGuest has the server on this host.
func (c cPair) fromGuest(t *testing.T) {
	g := dialGuest(t, c.ipv6)
	var server jobResult
	client := again(t, func() (client jobResult) {
		client, server = c.clientOnGuest(t, g)
		return client
	}, func(client jobResult) string {
		if c.iwarp() && c.serverFirst && strings.Contains(client.Output, "RDMA_CM_EVENT_CONNECT_ERROR") {
			// siw takes a responder's first message for the end of its reply, and fails the connection, if it comes
			// before siw's worker has looked at the reply. Ramjet waits half a second (RFC 5044 section 7.1.3 has it
			// wait for the peer), which is not enough for so many connections where the guest gets no processor.
			return "siw was too slow for a server that sends first"
		}
		return ""
	})
	c.wantSaid(t, "client on "+c.peer, client, c.clientSays)
	c.wantSaid(t, "server on Ramjet", server, c.serverSays)
}

// again runs a client, and once more while its result says nothing of Ramjet: excuse has the reason, or "".
//
// perftest compares the clock of the processor with that of the system first. Where it got no processor meanwhile it
// says so, and has no times: they are infinite.
func again(t *testing.T, run func() jobResult, excuse func(client jobResult) string) jobResult {
	t.Helper()
	client := run()
	for end := time.Now().Add(programTimeout); time.Now().Before(end); client = run() {
		why := excuse(client)
		if client.Exit == 0 && strings.Contains(client.Output, "Correlation coefficient") {
			why = "perftest could not measure the clock"
		}
		if why == "" {
			break
		}
		t.Logf("again, as %s:\n%s", why, client.Output)
	}
	return client
}

// clientOnGuest runs both and returns how they ended. Nothing on this host tells that a program listens with the
// connection manager. Where the client is refused, both start again, as perftest's server also has a moment between its
// two connections in which it does not listen: it would take the first one of another client for its second.
func (c cPair) clientOnGuest(t *testing.T, g *guest) (client, server jobResult) {
	t.Helper()
	client, server = c.tryOnGuest(t, g, 0)
	start := 250 * time.Millisecond
	for end := time.Now().Add(programTimeout); c.onCM && refused.MatchString(client.Output) &&
		time.Now().Before(end); start *= 2 {
		client, server = c.tryOnGuest(t, g, start)
	}
	return client, server
}

// tryOnGuest runs the client some time after the server, and ends a server whose client has failed.
func (c cPair) tryOnGuest(t *testing.T, g *guest, start time.Duration) (client, server jobResult) {
	t.Helper()
	address := c.pick(c.family.host, hostIPv4)
	p := c.onRamjet(t, c.argv(c.onHost(), c.server, address, g))
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	if !c.onCM {
		waitForListener(t, c.at)
	}
	if c.late && c.iwarp() {
		// siw fails a SEND whose connection the server ends before siw has completed it. perftest's server ends at
		// once when it has the client's last one, and the guest's processor is slow: so the SEND stays under way
		// longer.
		g.t.Cleanup(func() { g.call("netem_off", nil, nil) })
		g.call("netem", args{"direction": "out", "args": []string{"delay", "20ms"}, "iwarp": "all"}, nil)
	}
	time.Sleep(start)
	client = g.run(programTimeout, c.forClient().argv(c.onGuest(), c.client, address, g)...)
	if client.Exit != 0 {
		defer time.AfterFunc(2*time.Second, func() { p.Process.Kill() }).Stop() // it may wait for ever
	}
	p.Wait()
	return client, p.result()
}

// pick returns the address where the client finds the server: not that of the device where
// they meet over TCP.
func (c cPair) pick(onCM, tcp string) string {
	if c.onCM {
		return onCM
	}
	return tcp
}

// onHost and onGuest are the program's requirements there.
func (c cPair) onHost() string { return c.cKind.host }

func (c cPair) onGuest() string {
	if c.iwarp() {
		return c.iwGuest
	}
	return c.cKind.guest
}

// forClient is c with the client's program.
func (c cPair) forClient() cPair {
	if c.clientName != "" {
		c.program = []string{c.clientName}
	}
	return c
}

// argv is the command line of one side.
func (c cPair) argv(machine, role, server string, g *guest) []string {
	if strings.Contains(machine, "GID") {
		machine = strings.ReplaceAll(machine, "GID", strconv.Itoa(g.gidIndex()))
	}
	fill := strings.NewReplacer("SERVER", server, "PORT", strconv.Itoa(c.at))
	return append(append(append([]string{}, c.program...), strings.Fields(machine)...),
		strings.Fields(fill.Replace(role))...)
}

// onRamjet is a program of this host on Ramjet's libraries, with one device.
func (c cPair) onRamjet(t *testing.T, argv []string) *program {
	t.Helper()
	if _, err := exec.LookPath(argv[0]); err != nil {
		t.Skipf("%s is not installed: it is in Debian's ibverbs-utils, rdmacm-utils or perftest", argv[0])
	}
	device := c.device + c.family.host
	p := newProgram(t, argv[0], argv[1:]...)
	p.Env = append(os.Environ(), "LD_LIBRARY_PATH="+c.libs, "RAMJET_DEVICES="+device)
	return p
}

// refused is the message of clients without a listener at the port.
var refused = regexp.MustCompile(
	`Connection refused|RDMA_CM_EVENT_(REJECTED|UNREACHABLE)|Unexpected CM event bl blka 8`)

// complaint is a message about data or completions that are not as they should be,
// even where they end with 0.
var complaint = regexp.MustCompile(`(?i)mismatch|invalid data|failed status|completion with|wrong state`)

// wantSaid fails the test unless a program ended well, without complaints and with its last
// output.
func (c cPair) wantSaid(t *testing.T, who string, r jobResult, says string) {
	t.Helper()
	if r.Exit != 0 || r.TimedOut || complaint.MatchString(r.Output) || !regexp.MustCompile(says).MatchString(r.Output) {
		t.Errorf("%s: exit %d, timed out %v, want %q:\n%s", who, r.Exit, r.TimedOut, says, r.Output)
	}
}
