// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// mlx5Syndromes are the statuses of the syndromes that mlx5 adapters put into completions.
var mlx5Syndromes = map[int]int{
	0x01: int(verbs.StatusLocalLengthError), 0x02: int(verbs.StatusLocalQPOperationError),
	0x04: int(verbs.StatusLocalProtectionError), 0x05: int(verbs.StatusWRFlushError),
	0x06: int(verbs.StatusMWBindError), 0x10: int(verbs.StatusBadResponseError),
	0x11: int(verbs.StatusLocalAccessError), 0x12: int(verbs.StatusRemoteInvalidRequestError),
	0x13: int(verbs.StatusRemoteAccessError), 0x14: int(verbs.StatusRemoteOperationError),
	0x15: int(verbs.StatusRetryExceeded), 0x16: int(verbs.StatusRNRRetryExceeded),
	0x22: int(verbs.StatusRemoteAbortedError),
}

// mlx5Seen are vendor errors that mlx5 adapters report with a status, as logs of the field show. There is no public
// table of them.
var mlx5Seen = map[int]int{
	0x51: int(verbs.StatusLocalProtectionError), 0x56: int(verbs.StatusLocalProtectionError),
	0x61: int(verbs.StatusLocalQPOperationError), 0x78: int(verbs.StatusMWBindError),
	0x81: int(verbs.StatusRetryExceeded), 0x88: int(verbs.StatusRemoteAccessError),
	0x89: int(verbs.StatusRemoteOperationError), 0x8a: int(verbs.StatusRemoteInvalidRequestError),
	0xf9: int(verbs.StatusWRFlushError),
}

// bnxtRequests are the statuses of a requester's completions by Broadcom's own number.
var bnxtRequests = map[int]int{1: int(verbs.StatusBadResponseError), 2: int(verbs.StatusLocalLengthError),
	3: int(verbs.StatusLocalQPOperationError), 4: int(verbs.StatusLocalProtectionError),
	5: int(verbs.StatusMWBindError), 6: int(verbs.StatusRemoteInvalidRequestError),
	7: int(verbs.StatusRemoteAccessError), 8: int(verbs.StatusRemoteOperationError),
	9: int(verbs.StatusRNRRetryExceeded), 10: int(verbs.StatusRetryExceeded), 11: int(verbs.StatusWRFlushError)}

// irdmaFlushes are the minor numbers of Intel's flushes, whose major number is 1.
var irdmaFlushes = map[int]int{1: int(verbs.StatusWRFlushError), 2: int(verbs.StatusLocalProtectionError),
	3: int(verbs.StatusRemoteAccessError), 4: int(verbs.StatusLocalQPOperationError),
	5: int(verbs.StatusRemoteOperationError), 6: int(verbs.StatusLocalLengthError), 7: int(verbs.StatusFatalError),
	8: int(verbs.StatusRetryExceeded), 9: int(verbs.StatusMWBindError),
	10: int(verbs.StatusRemoteInvalidRequestError), 11: int(verbs.StatusRNRRetryExceeded)}

var irdmaEvent = lazily(`\bae(?:_?id)?[ =:]*0x([0-9a-f]{3,4})\b`)

// irdmaEvents are the asynchronous events of Intel's adapters.
var irdmaEvents = map[int]string{
	0x0102: "a steering tag that is not allocated: a key that has ended", 0x0103: "an invalid steering tag",
	0x0104: "a key of another queue pair", 0x0105: "a key of another protection domain",
	0x0106: "a key whose last 8 bits are wrong: stale",
	0x0107: "a key that does not exist",
	0x0108: "beyond the memory of the key", 0x0109: "the region does not give the right",
	0x010a: "an address that wraps", 0x0207: "more READs at once than agreed", 0x0208: "an invalid request",
	0x020d: "remote access error",
	0x020e: "remote operation error",
	0x0303: "a SEND longer than the receive", 0x0306: "a SEND for which no receive is posted",
	0x0401: "no entry of ARP for the peer", 0x0501: "the connection was closed",
	0x0502: "the peer reset the connection",
	0x0503: "the peer closed the connection", 0x0505: "a wrong CRC in MPA",
	0x0509: "the peer sent a Terminate", 0x050a: "too many retries without an answer",
	0x050b: "the peer is gone: no answer to keepalives",
	0x050f: "too many RNR NAKs", 0x0520: "the adapter has no resource left", 0x0602: "a Terminate was sent",
	0x0700: "the queue pair failed in the adapter",
	0x0701: "the adapter's function failed", 0x0702: "the completion queue failed",
}

// vendorError adds the meaning of the vendor's number in a line, as far as it is public, and the status if the line
// has none.
func (f *Found) vendorError(lower string) {
	m := vendorNumber().FindStringSubmatch(lower)
	if m == nil {
		return
	}
	v, err := strconv.ParseUint(m[1], 0, 32)
	if err != nil {
		return
	}
	n := int(v)
	value := fmt.Sprintf("%d (%#x)", n, n)
	status, source := -1, "mlx5 adapters report it with"
	switch {
	case strings.Contains(lower, "bnxt_re"):
		status, source = lookup(bnxtRequests, n), "of bnxt_re, at a requester, it is"
	case strings.Contains(lower, "irdma") && n>>16 == 1:
		status, source = lookup(irdmaFlushes, n&0xffff), "of irdma it is"
	case strings.Contains(lower, "irdma"), strings.Contains(lower, "efa"), strings.Contains(lower, "hns"):
	default:
		status = lookup(mlx5Seen, n)
	}
	if e, ok := statusEntry(status); ok {
		means := source + " " + e.Name + "; no public table says more"
		if f.Entries[0].Kind == Status && f.Entries[0].Name != e.Name {
			means = source + " " + e.Name + " as a rule, and here with another status: the status counts"
		}
		f.Facts = append(f.Facts, Fact{"vendor error", value, means})
		return
	}
	means := "its meaning is the vendor's, and not public"
	if r := verbs.Reason(n); n > 0 && n < 32 && r.String() != "unknown" {
		means = "of Ramjet's devices it is: " + r.String() + "; of others its meaning is the vendor's"
	}
	f.Facts = append(f.Facts, Fact{"vendor error", value, means})
}

func lookup(table map[int]int, n int) int {
	if status, ok := table[n]; ok {
		return status
	}
	return -1
}

// cqeDump collects the completion that mlx5 prints in hex: 64 bytes, in lines of 16 after a line that announces them.
type cqeDump struct {
	from  int    // the line that announces it, 0 for none
	line  string // its text
	bytes []byte
}

// dumpLines limits how many lines a dump may take, with lines of other processes between.
const dumpLines = 16

var (
	dumpBegins = lazily(`(?i)got completion with error:?|dump error cqe`)
	dumpWords  = lazily(`(?:^|\s)((?:[0-9a-f]{8}\s+){3}[0-9a-f]{8})\b`)
	dumpBytes  = lazily(`\b000000[0-3]0:? ((?:[0-9a-f]{2} ){15}[0-9a-f]{2})\b`)
)

// take takes the next line of a log, and explains the completion when it has all of it.
func (d *cqeDump) take(line string, number int) *Found {
	if at := dumpBegins().FindStringIndex(line); at != nil {
		*d = cqeDump{from: number, line: line}
		line = line[at[1]:]
	}
	if d.from == 0 {
		return nil
	}
	if number-d.from > dumpLines {
		d.from = 0
		return nil
	}
	re := dumpWords
	if dumpBytes().MatchString(line) {
		re = dumpBytes
	}
	for _, m := range re().FindAllStringSubmatch(line, 4) {
		b, err := hex.DecodeString(strings.Join(strings.Fields(m[1]), ""))
		if err != nil {
			return nil
		}
		d.bytes = append(d.bytes, b...)
	}
	if len(d.bytes) < 64 {
		return nil
	}
	cqe, from, text := d.bytes[:64], d.from, d.line
	d.from, d.bytes = 0, nil
	return explainCQE(cqe, from, text)
}

// mlx5Opcodes are the opcodes of work requests.
var mlx5Opcodes = map[byte]string{0: "none: a receive, or no work request", 8: "RDMA WRITE",
	9: "RDMA WRITE with immediate", 10: "SEND", 11: "SEND with immediate", 14: "TSO",
	16: "RDMA READ", 17: "COMPARE_SWAP", 18: "FETCH_ADD", 0x25: "UMR: a change of a memory key"}

// explainCQE explains the 64 bytes of a completion with an error: vendor syndrome and syndrome are bytes 54 and 55, the
// opcode byte 56, the number of the queue pair bytes 57 to 59.
func explainCQE(cqe []byte, from int, line string) *Found {
	f := &Found{Line: line, Number: from}
	if f.syndrome(int(cqe[55])) == unknown {
		return nil
	}
	e := &f.Entries[0]
	vendor := Fact{"vendor error", fmt.Sprintf("%d (%#x)", cqe[54], cqe[54]),
		"its meaning is the vendor's, and not public"}
	if lookup(mlx5Seen, int(cqe[54])) == e.Number {
		vendor.Means = "mlx5 adapters report it with " + e.Name + "; no public table says more"
	}
	operation, ok := mlx5Opcodes[cqe[56]]
	if !ok {
		operation = "not known here"
	}
	f.Facts = append(f.Facts, vendor, Fact{"operation", fmt.Sprintf("%#x", cqe[56]), operation},
		Fact{"queue pair", fmt.Sprintf("%#x", uint32(cqe[57])<<16|uint32(cqe[58])<<8|uint32(cqe[59])), ""})
	f.circumstances(line)
	return f
}
