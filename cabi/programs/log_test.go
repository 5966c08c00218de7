// SPDX-License-Identifier: Apache-2.0

//go:build linux && !race

package programs

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// logged builds testdata/logged.c, and returns a function that runs it and returns its output, and its log.
func logged(t *testing.T) func(filter string, args ...string) (out, log string, err error) {
	t.Helper()
	dir := need(t)
	run, program := ramjet(t), filepath.Join(t.TempDir(), "logged")
	text, err := exec.Command("gcc", "-O1", "-g", "-Wall", "-Werror", "-o", program, "testdata/logged.c",
		filepath.Join(dir, "librdmacm.so.1"), filepath.Join(dir, "libibverbs.so.1")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return func(filter string, args ...string) (out, log string, err error) {
		folder := t.TempDir()
		all := append([]string{run, "run", "--libs", dir, "--log=" + filepath.Join(folder, "calls.%p"), "--log-filter",
			filter, "--", program}, args...)
		c := command(t.Context(), dir, serverAddr, all...)
		b, err := c.CombinedOutput()
		lines, readErr := os.ReadFile(filepath.Join(folder, fmt.Sprintf("calls.%d", c.ProcessState.Pid())))
		if readErr != nil && c.ProcessState.ExitCode() != 2 {
			t.Errorf("%v\n%s", readErr, b)
		}
		return string(b), string(lines), err
	}
}

// The calls of an unmodified program are logged, with arguments and results by name, and the reasons of its errors.
func TestLog(t *testing.T) {
	run := logged(t)
	out, log, err := run("data")
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, log)
	}
	begin, end := `(?m)^(\d+)/\1 \d\d:\d\d:\d\d\.\d{6} `, ` <\d+\.\d{6}>$`
	begin = strings.ReplaceAll(begin, `\1`, `\d+`)
	rest := log
	for _, want := range []string{
		`ibv_get_device_list\(num_devices=NULL\) = 0x\w+`,
		`ibv_open_device\(device=roce0\) = context1`,
		`ibv_free_device_list\(list=0x\w+\)`,
		`ibv_alloc_pd\(context=context1\) = pd1`,
		`ibv_reg_mr\(pd=pd1, addr=0x\w+, length=4096, access=IBV_ACCESS_LOCAL_WRITE\|IBV_ACCESS_REMOTE_WRITE, lkey=0x\w+, rkey=0x\w+\) = mr1`,
		`ibv_reg_mr\(pd=pd1, addr=0x\w+, length=4096, access=IBV_ACCESS_REMOTE_WRITE\) = NULL EINVAL \(verbs: .*need LocalWrite\)`,
		`ibv_create_cq\(context=context1, cqe=64, cq_context=NULL, channel=NULL, comp_vector=0\) = cq1`,
		`ibv_create_qp\(pd=pd1, attr=\{qp_type=IBV_QPT_RC, send_cq=cq1, recv_cq=cq1, srq=NULL, cap=\{max_send_wr=16, max_recv_wr=16, max_send_sge=4, max_recv_sge=4, max_inline_data=64\}, sq_sig_all=1\}, qp_num=0x\w+, device=roce0, gids=\[::ffff:127\.\S+\], granted=\{max_send_wr=16, .*\}\) = qp1`,
		`ibv_create_cq\(.*\) = cq2`,
		`ibv_create_qp\(.*\) = qp2`,
		`ibv_modify_qp\(qp=qp1, attr=\{qp_state=IBV_QPS_INIT, qp_access_flags=IBV_ACCESS_REMOTE_WRITE\|IBV_ACCESS_REMOTE_READ\|IBV_ACCESS_REMOTE_ATOMIC, pkey_index=0, port_num=1\}, attr_mask=IBV_QP_STATE\|IBV_QP_ACCESS_FLAGS\|IBV_QP_PKEY_INDEX\|IBV_QP_PORT\) = 0`,
		`ibv_query_gid\(context=context1, port_num=1, index=0, gid=::ffff:127\.\S+\) = 0`,
		`ibv_modify_qp\(qp=qp1, attr=\{qp_state=IBV_QPS_RTR, ah_attr=\{.*\}, path_mtu=IBV_MTU_1024, dest_qp_num=0x\w+, .*\}, attr_mask=.*\) = 0`,
		`ibv_modify_qp\(qp=qp1, attr=\{qp_state=IBV_QPS_RTS, dest_qp_num=0x0\}, attr_mask=IBV_QP_STATE\|IBV_QP_DEST_QPN\) = 22 EINVAL \(.*DestQPN\)`,
		`ibv_post_send\(qp=qp1, wr=\[\{wr_id=0x7, opcode=IBV_WR_RDMA_WRITE, send_flags=IBV_SEND_SIGNALED, sg_list=\[\{addr=0x\w+, length=8, lkey=0x\w+\}\], remote_addr=0x\w+, rkey=0x\w+\}\], bad_wr=0x\w+\) = 0`,
		`ibv_poll_cq\(cq=cq1, num_entries=1, wc=\[\{wr_id=0x7, status=IBV_WC_SUCCESS, opcode=IBV_WC_RDMA_WRITE, .*\}\]\) = 1`,
		`rdma_create_event_channel\(\) = cmchannel1`,
		`rdma_create_id\(channel=cmchannel1, id=id1, context=NULL, ps=RDMA_PS_TCP\) = 0`,
		`rdma_listen\(id=id1, backlog=1\) = 0`,
		`rdma_destroy_id\(id=id1\) = 0`,
		`rdma_destroy_event_channel\(channel=cmchannel1\)`,
		`ibv_dereg_mr\(mr=mr1\) = 0`,
		`ibv_destroy_qp\(qp=qp1\) = 0`,
		`ibv_destroy_cq\(cq=cq1\) = 0`,
		`ibv_destroy_qp\(qp=qp2\) = 0`,
		`ibv_dealloc_pd\(pd=pd1\) = 0`,
		`ibv_close_device\(context=context1\) = 0`,
	} {
		at := regexp.MustCompile(begin + want + end).FindStringIndex(rest)
		if at == nil {
			t.Fatalf("there is no %s in the rest of the log:\n%s\nof\n%s", want, rest, log)
		}
		rest = rest[at[1]:]
	}
	if strings.Contains(log, "= 0 ibv_poll") || strings.Contains(log, "wc=[]") || strings.Contains(log, "?0x") {
		t.Errorf("%s", log)
	}
}

// Filters select by call, object and error; JSON has the same values as the text.
func TestLogFilters(t *testing.T) {
	run := logged(t)
	for filter, want := range map[string]string{
		"errors":                      "ibv_reg_mr ibv_modify_qp",
		"object=qp2 !modify_qp":       "ibv_create_qp ibv_destroy_qp",
		"rdma_*id rdma_listen":        "rdma_create_id rdma_listen rdma_destroy_id",
		"post_send object=qp1":        "ibv_post_send",
		"enter ibv_dereg_mr":          "ibv_dereg_mr ibv_dereg_mr",
		"json errors object=mr":       "",
		"ibv_*_pd,rdma_get_cm_event":  "ibv_alloc_pd ibv_dealloc_pd",
		"object=cq2 !create_qp error": "2",
	} {
		out, log, err := run(filter)
		if want == "2" { // no such filter
			if err == nil || !strings.Contains(out, `--log-filter: column 23: "error": expected a call`) ||
				!strings.Contains(out, "did you mean errors?") || log != "" {
				t.Errorf("%s: %v\n%s%s", filter, err, out, log)
			}
			continue
		}
		var calls []string
		for _, m := range regexp.MustCompile(`(?m)^\S+ \S+ (\w+)\(`).FindAllStringSubmatch(log, -1) {
			calls = append(calls, m[1])
		}
		if got := strings.Join(calls, " "); err != nil || got != want {
			t.Errorf("%s: %v, %q, and not %q:\n%s%s", filter, err, got, want, out, log)
		}
	}
	_, log, _ := run("json errors")
	var seen []string
	for line := range strings.Lines(log) {
		var v struct {
			Call, Errno, Error string
			Args               map[string]any
			PID, TID           int
			Duration           int `json:"duration_ns"`
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil || v.PID == 0 || v.TID == 0 || v.Duration == 0 ||
			v.Error == "" {
			t.Errorf("%v: %s", err, line)
		}
		seen = append(seen, v.Call, v.Errno)
	}
	if got := strings.Join(seen, " "); got != "ibv_reg_mr EINVAL ibv_modify_qp EINVAL" {
		t.Errorf("%s", log)
	}
}

// However a program ends, its log is whole up to the last call, and with enter has the call in which it crashed.
func TestLogOfCrash(t *testing.T) {
	run := logged(t)
	for _, c := range []struct{ filter, arg, last string }{
		{"", "9", `rdma_destroy_event_channel\(channel=cmchannel1\) <[\d.]+>\n`},
		{"", "6", `rdma_destroy_event_channel\(channel=cmchannel1\) <[\d.]+>\n`},
		{"", "segv", `rdma_destroy_event_channel\(channel=cmchannel1\) <[\d.]+>\n`},
		{"enter", "segv", `ibv_dereg_mr\(mr=mr\?0x8 \.\.\.\n`},
	} {
		out, log, err := run(c.filter, c.arg)
		if err == nil || !regexp.MustCompile(c.last+`\z`).MatchString(log) {
			t.Errorf("%s %q: %v\n%s%s", c.arg, c.filter, err, out, log)
		}
	}
}

// Calls of rsockets are logged with names for their constants; non-blocking calls only if they find something.
func TestLogRsockets(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("RAMJET_LOG", filepath.Join(folder, "calls.%p"))
	t.Setenv("RAMJET_LOG_FILTER", "data")
	const args = " -S 1000 -I 2 -C 2 -p PORT"
	(&pair{server: "rstream -b SERVER" + args, client: "rstream -s SERVER" + args, want: "custom"}).run(t)
	names, err := filepath.Glob(filepath.Join(folder, "calls.*"))
	if err != nil || len(names) < 2 { // a client that came before its server has one, too
		t.Fatalf("%q, %v", names, err)
	}
	var all strings.Builder
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	for _, want := range []string{
		`rsocket\(domain=AF_INET, type=SOCK_STREAM, protocol=0\) = \d+`,
		`rsetsockopt\(socket=\d+, level=IPPROTO_TCP, optname=TCP_NODELAY, optval=1, optlen=4\) = 0`,
		`rbind\(socket=\d+, addr=127\.[\d.:]+, addrlen=16\) = 0`,
		`rlisten\(socket=\d+, backlog=1\) = 0`,
		`raccept\(socket=\d+, addr=NULL, addrlen=NULL\) = \d+`,
		`rfcntl\(socket=\d+, cmd=F_SETFL, arg=0x800\) = 0`,
		`rconnect\(socket=\d+, addr=127\.[\d.:]+, addrlen=16\) = -1 EINPROGRESS`,
		`rpoll\(fds=\[\{fd=\d+, events=POLLOUT, revents=POLLOUT\}\], nfds=1, timeout=\d+\) = 1`,
		`rsend\(socket=\d+, buf=0x\w+, len=1000, flags=MSG_DONTWAIT\) = 1000`,
		`rrecv\(socket=\d+, buf=0x\w+, len=1000, flags=MSG_DONTWAIT\) = 1000`,
		`rshutdown\(socket=\d+, how=SHUT_RDWR\) = 0`,
		`rclose\(socket=\d+\) = 0`,
	} {
		if !regexp.MustCompile(`(?m) ` + want + ` <[\d.]+>$`).MatchString(all.String()) {
			t.Errorf("there is no %s in\n%s", want, &all)
		}
	}
	if strings.Contains(all.String(), "EAGAIN") {
		t.Error("there are calls that have found nothing")
	}
}
