// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Found is the contents of a log, or of a line of one.
type Found struct {
	Line    string  `json:"line"`            // the line that matters
	Number  int     `json:"line_number"`     // of that line, from 1
	Lines   int     `json:"lines"`           // of the log
	Facts   []Fact  `json:"facts,omitempty"` // of the line: numbers, addresses, devices
	Entries []Entry `json:"entries"`         // the most specific first
	Others  []Other `json:"others,omitempty"`
}

// Fact is a part of a line, and its meaning.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Means string `json:"means,omitempty"`
}

// Other is another line of the log that is known.
type Other struct {
	Number int    `json:"line_number"`
	Title  string `json:"title"`
	Name   string `json:"name"`
}

// level is how much of the cause a line shows. The first line of the highest level matters.
type level int

const (
	unknown       level = iota
	notice              // no error
	consequence         // something else failed before
	cause               // something failed
	causeNumbered       // and a status, an errno or a reason says how
)

// The bounds of the lines that are kept of a log.
const (
	maxLine   = 4 << 10
	maxOthers = 8
)

// Log reads a log to its end, and explains the line that matters. nil: it has none that is known. It keeps a few lines
// of a log of any length; of a line it looks at the first 4 KiB.
func Log(r io.Reader) (*Found, error) {
	in := bufio.NewReaderSize(r, maxLine)
	var best *Found
	top, lines := unknown, 0
	var all []Other
	var dump cqeDump
	for {
		text, err := readLine(in)
		if err != nil && (text == "" || !errors.Is(err, io.EOF)) {
			if !errors.Is(err, io.EOF) {
				return nil, err
			}
			break
		}
		lines++
		f, l := explainLine(text)
		if d := dump.take(text, lines); d != nil {
			f, l = d, d.level()
		}
		if l == unknown {
			continue
		}
		f.Number = cmp.Or(f.Number, lines)
		title := f.Entries[0].Title()
		if !slices.ContainsFunc(all, func(o Other) bool { return o.Title == title }) && len(all) <= maxOthers {
			all = append(all, Other{f.Number, title, f.Entries[0].Name})
		}
		if l > top {
			best, top = f, l
		}
	}
	if best == nil {
		return nil, nil
	}
	best.Lines = lines
	title := best.Entries[0].Title()
	best.Others = slices.DeleteFunc(all, func(o Other) bool { return o.Title == title || o.Number == best.Number })
	return best, nil
}

// readLine returns the next line without its end and without escapes of terminals; of a long one the beginning.
func readLine(in *bufio.Reader) (string, error) {
	part, err := in.ReadSlice('\n')
	text := string(part)
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = in.ReadSlice('\n')
	}
	if err == nil && text == "" {
		text = "\n"
	}
	text = escapes().ReplaceAllString(text, "")
	if err != nil {
		return strings.TrimSpace(text), err
	}
	return strings.TrimRight(text, "\r\n"), nil
}

var escapes = lazily("\x1b\\[[0-9;]*[A-Za-z]")

// rdmaWord is a word that tells a line about RDMA from others with the same texts, such as "fatal error".
var rdmaWord = lazily(`(?i)ibv?_[a-z]|rdma|\broce|\biwarp|infiniband|\bverbs|mlx[45]|bnxt_re|irdma|hns_roce|\bsiw|\brxe|\befa\b|nccl|\brccl|net/ib|\bucx\b|\buc[tp]_|libfabric|\bofi\b|openib|openfabrics|` +
	`\bqpn?\b|\bcqe?n?\b|queue pair|work request|\bwr_?id\b|\bpsn\b|[lr]key\b|\bstag\b|\bpost_(send|recv)|poll_cq|completion|perftest|\brping|ramjet|\bcm: |ko2iblnd|o2ib|\bwc\b|\bwqe\b|connect rejected`)

// distinctive are texts that nothing else has.
var distinctive = lazily(`retry count|transport retry|\brnr\b|flushed|local protection|remote invalid request|retry exceeded error|receiver not ready`)

// hints are parts of words, one of which every line has that is known.
var hints = []string{"err", "fail", "could", "can't", "cannot", "unable", "not ", "no ", "n't", "invalid", "denied",
	"reject", "refus", "unreach", "timed", "timeout", "exceed", "flush", "abort", "fatal", "warn", "event", "status",
	"reason", "syndrom", "synd ", "ae_id", "dump", "unsuccess", "discard", "pause", "out_of_seq", "health", "memlock",
	"ulimit", "max locked", "wc_", "rej", "verbs", "cm.", "memory", "nak", "term_", "in use", "closed", "ended",
	"reset", "posted", "bounds", "misalign", "mapped", "no_", "full", "stale", "plugin", "incompatib", "unrespons",
	"atomic", "malformed", "too ", "lost", "gone", "catastroph", "violation", "busy", "overflow", "permit", "port ",
	"drained", "migrat", "change", "limit", "reached", "reregist", "retry", "rnr", "receiver not", "local ", "remote ",
	"key", "listen"}

// A recognizer finds one sort of thing in a line.
type recognizer func(line, lower string, f *Found) level

var recognizers = []recognizer{connectionEvent, names, syndromes, statusNumber, failedCall, programMessage, knownTexts}

// explainLine explains one line.
func explainLine(line string) (*Found, level) {
	line = strings.TrimSpace(line)
	f := &Found{Line: line}
	if len(line) < 3 {
		return f, unknown
	}
	lower := strings.ToLower(line)
	if !slices.ContainsFunc(hints, func(h string) bool { return strings.Contains(lower, h) }) {
		return f, unknown // most lines of a log are nothing to look at closely
	}
	levels := map[string]level{}
	for _, r := range recognizers {
		had := len(f.Entries)
		l := r(line, lower, f)
		for _, e := range f.Entries[had:] {
			if l > levels[e.Name] {
				levels[e.Name] = l
			}
		}
	}
	f.Entries = unique(f.Entries)
	if len(f.Entries) == 0 {
		return f, unknown
	}
	slices.SortStableFunc(f.Entries, func(a, b Entry) int { return int(levels[b.Name]) - int(levels[a.Name]) })
	f.vendorError(lower)
	f.circumstances(line)
	return f, f.levelOf(levels)
}

// levelOf returns the highest level; an entry that is no error, or a consequence by its nature, lowers it.
func (f *Found) levelOf(levels map[string]level) level {
	top := unknown
	for _, e := range f.Entries {
		top = max(top, min(levels[e.Name], natural(&e)))
	}
	return top
}

func (f *Found) level() level { return min(causeNumbered, natural(&f.Entries[0])) }

// natural is the highest level that an entry can have.
func natural(e *Entry) level {
	switch {
	case e.Name == "IBV_WC_WR_FLUSH_ERR", e.Name == "RDMA_CM_EVENT_DISCONNECTED",
		e.Name == "IBV_EVENT_QP_LAST_WQE_REACHED":
		return consequence
	case len(e.Causes) == 0 || e.Name == "IBV_WC_SUCCESS":
		return notice
	}
	return causeNumbered
}

func unique(list []Entry) (all []Entry) {
	for _, e := range list {
		if !slices.ContainsFunc(all, func(o Entry) bool { return o.Name == e.Name }) {
			all = append(all, e)
		}
	}
	return all
}

var (
	cachedStatuses = sync.OnceValue(statuses)
	cachedEvents   = sync.OnceValue(connectionEvents)
	// texts are the entries whose names and texts may be in lines, with these in lower case.
	textsOf = sync.OnceValues(func() (own, also []known) {
		for _, e := range All() {
			if e.Kind == Failed || e.Kind == Message {
				continue
			}
			own = append(own, knownAs(e, e.Name, e.Text))
			also = append(also, knownAs(e, e.Also...))
		}
		return own, also
	})
)

// statusEntry returns the entry of a completion's status.
func statusEntry(n int) (Entry, bool) {
	all := cachedStatuses()
	if n < 0 || n >= len(all) {
		return Entry{}, false
	}
	return all[n], true
}

// byName are the entries of statuses and events by the names that logs have.
var byName = sync.OnceValue(func() map[string]Entry {
	all := map[string]Entry{}
	for _, e := range slices.Concat(statuses(), events(), rejects()) {
		all[e.Name] = e
		all[strings.Replace(e.Name, "IBV_", "IB_", 1)] = e
		if e.Kind == Status {
			all[strings.TrimPrefix(e.Name, "IBV_WC_")] = e
		}
	}
	delete(all, "SUCCESS")
	return all
})

var (
	upper         = lazily(`\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b`)
	cmEvent       = lazily(`\b(RDMA_CM_EVENT_[A-Z_]+)\b(?:[ :=,;()]*(?:with )?(?:error|status|err|reason|code|ret)?[ :=,;(]*(-?[0-9]{1,5})\b)?`)
	cmNumber      = lazily(`\b(?:cm|cma|rdma_cm|rdma cm) event(?: bl blka)?[ :=#]*([0-9]{1,2})\b(?:[,;] *(?:error|status)[ :=]*(-?[0-9]{1,5}))?`)
	completionNo  = lazily(`(?:completion (?:with )?(?:error|status)|failed status|wc[ ._]?status|wc error|with (?:error|status)|\bstatus|\berror)[-=: (#]*(0x[0-9a-f]+|[0-9]{1,2})\b`)
	completionFor = lazily(
		`completion|\bwc\b|wc[ ._]?status|wr_?id|\bcqe?\b|net/ib|work request|failed status|wr id`)
	ucxSyndrome  = lazily(`synd 0x([0-9a-f]+) vend 0x([0-9a-f]+)`)
	mlxSyndrome  = lazily(`(?:syndrome|hw_synd)[ =:]*0x([0-9a-f]{1,2})\b`)
	vendorNumber = lazily(
		`(?:vendor[ _]?err(?:or)?|\bvend|\bsyndrom|vendor[ _]?synd(?:rome)?)\b[ =:(]*(0x[0-9a-f]+|[0-9]+)`)
)

// connectionEvent recognizes events of librdmacm, and tells their statuses apart.
func connectionEvent(line, lower string, f *Found) level {
	name, status := "", ""
	if m := cmEvent().FindStringSubmatch(line); m != nil {
		name, status = m[1], m[2]
	} else if m := cmNumber().FindStringSubmatch(lower); m != nil {
		n, _ := strconv.Atoi(m[1])
		if all := cachedEvents(); n < len(all) {
			name, status = all[n].Name, m[2]
			f.Facts = append(f.Facts, Fact{"event", m[1], name})
		}
	}
	i := slices.IndexFunc(cachedEvents(), func(e Entry) bool { return e.Name == name })
	if i < 0 {
		return unknown
	}
	e := cachedEvents()[i]
	n, err := strconv.Atoi(status)
	if err != nil || n == 0 {
		f.Entries = append(f.Entries, e)
		return min(cause, natural(&e))
	}
	f.eventStatus(e, n)
	return min(causeNumbered, natural(&e))
}

// eventStatus explains the status of an event: an errno of the kernel if it is negative, a reason of a REJ if the
// event is that.
func (f *Found) eventStatus(e Entry, n int) {
	fact := Fact{"status", strconv.Itoa(n), "what this status of this event means is not known here"}
	switch rejected := e.Name == "RDMA_CM_EVENT_REJECTED"; {
	case n < 0:
		no := errnoNumbered(-n)
		if no == nil {
			break
		}
		fact.Means = fmt.Sprintf("%s (%s), an errno of the kernel", no.name, no.text)
		if rejected {
			fact.Means += ", not a reason of a REJ"
		}
		if s, ok := eventErrnos[e.Name][no.name]; ok {
			e.Means, e.Causes = s.means, s.causes
		}
	case rejected:
		if found := withNumber(rejects(), Reject, int64(n)); len(found) > 0 {
			fact.Means = found[0].Name + ": " + found[0].Text + ", the reason of a REJ"
			e.Means += " " + found[0].Means
			if len(found[0].Causes) > 0 && n != 8 && n != 28 {
				e.Causes = found[0].Causes
			}
			if at := slices.IndexFunc(e.Causes,
				func(c Cause) bool { return strings.Contains(c.What, fmt.Sprintf("(%d)", n)) }); at > 0 {
				e.Causes = slices.Concat(e.Causes[at:at+1], e.Causes[:at], e.Causes[at+1:])
			}
			f.Entries = append(f.Entries, e, found[0])
			f.Facts = append(f.Facts, fact)
			return
		}
	}
	f.Entries = append(f.Entries, e)
	f.Facts = append(f.Facts, fact)
}

// eventErrnos are the meanings of events with an errno as their status.
var eventErrnos = map[string]map[string]explained{
	"RDMA_CM_EVENT_ADDR_ERROR": {
		"ENODEV": {means: "The interface that the route to the peer uses has no RDMA device.",
			causes: noDeviceFor},
		"ETIMEDOUT":    {means: "The peer does not answer ARP or neighbor discovery.", causes: noPath[1:]},
		"EHOSTUNREACH": {means: "Nobody answers for the peer's address on its network.", causes: noPath[1:]},
		"ENETUNREACH":  {means: "No route leads to the peer.", causes: noDeviceFor[:1]},
	},
	"RDMA_CM_EVENT_ROUTE_ERROR": {"ETIMEDOUT": {means: "The subnet administrator did not answer.", causes: noRoute}},
	"RDMA_CM_EVENT_UNREACHABLE": {"ETIMEDOUT": {means: "The peer did not answer the connection request, though it was sent again and again.", causes: []Cause{
		{"The host is down, or the address is that of another interface.", "ping PEER; ramjet doctor PEER",
			"Give the address of the peer's RDMA interface."},
		{"A firewall drops the packets: ping passes, and RDMA does not.",
			"nft list ruleset; tcpdump -i INTERFACE udp port 4791, at the peer",
			"Admit UDP port 4791 (RoCEv2) or the TCP port (iWARP)."},
		{"The server does not take its events, so that nobody accepts; or the kinds of device differ.",
			"its stack: gdb -p PID; rdma link at both ends", "Call rdma_get_cm_event in a loop; one kind on both."}}}},
	"RDMA_CM_EVENT_REJECTED": {
		"ECONNREFUSED": {means: "Nobody listens at the peer's TCP port. The connection is one of iWARP: there the status is an errno.", causes: []Cause{
			{"The server does not run, or listens at another port or address.",
				"ss -ltn; rdma resource show cm_id, at the peer", "Start it first, with the same port."},
			{"The address is that of another host or interface.", "ip route get PEER",
				"Give the address of the server's RDMA interface."},
			{"A firewall refuses the port.", "nft list ruleset, at the peer", "Admit the TCP port."}}},
		"ECONNRESET": {means: "The peer's TCP ended the connection while it was set up. The connection is one of iWARP: there the status is an errno.", causes: []Cause{
			{"The server's program rejected it, or ended.", "its output", "As that says."},
			{"Something that is not iWARP listens at the port, such as a program on sockets.", "ss -ltnp, at the peer",
				"Take the port of the RDMA server."},
			{"The two stacks do not agree on MPA: revision, markers, or the first message (RFC 6581).",
				"ramjet ladder on a capture of the set-up; dmesg at both ends",
				"The same settings on both, such as peer-to-peer mode."}}},
	},
	"RDMA_CM_EVENT_CONNECT_ERROR": {
		"EINVAL": {means: "The queue pair could not be moved to RTR or RTS with the attributes of the connection.",
			causes: misfits},
		"ETIMEDOUT": {means: "The connection took too long to set up.", causes: noAnswer},
	},
}

// names recognizes IBV_WC_…, IB_WC_…, IBV_EVENT_… and short names of statuses, in capitals.
func names(line, _ string, f *Found) (top level) {
	for _, word := range upper().FindAllString(line, 16) {
		if e, ok := byName()[word]; ok {
			f.Entries = append(f.Entries, e)
			top = max(top, min(causeNumbered, natural(&e)))
		}
	}
	return top
}

// syndromes recognizes mlx5's syndromes.
func syndromes(line, lower string, f *Found) level {
	value := ""
	if m := ucxSyndrome().FindStringSubmatch(lower); m != nil {
		value = m[1]
	} else if m := mlxSyndrome().FindStringSubmatch(lower); m != nil {
		value = m[1]
	}
	n, err := strconv.ParseUint(value, 16, 8)
	if err != nil {
		return unknown
	}
	return f.syndrome(int(n))
}

// syndrome adds the status of an mlx5 syndrome, or of a vendor syndrome that older messages call so.
func (f *Found) syndrome(n int) level {
	if status, ok := mlx5Syndromes[n]; ok {
		e, _ := statusEntry(status)
		f.Entries = append(f.Entries, e)
		f.Facts = append(f.Facts, Fact{"syndrome", fmt.Sprintf("%#x", n), e.Name + ", by mlx5's table"})
		return min(causeNumbered, natural(&e))
	}
	if status, ok := mlx5Seen[n]; ok {
		e, _ := statusEntry(status)
		f.Entries = append(f.Entries, e)
		f.Facts = append(f.Facts, Fact{"syndrome", fmt.Sprintf("%#x", n),
			"no syndrome of mlx5's table, but the vendor's: adapters report it with " + e.Name})
		return min(causeNumbered, natural(&e))
	}
	return unknown
}

// statusNumber recognizes the number of a completion's status by the words around it.
func statusNumber(_, lower string, f *Found) level {
	if !completionFor().MatchString(lower) || cmNumber().MatchString(lower) ||
		strings.Contains(lower, "rdma_cm_event_") {
		return unknown
	}
	for _, m := range completionNo().FindAllStringSubmatch(lower, -1) {
		n, err := strconv.ParseUint(m[1], 0, 16)
		if err != nil {
			continue
		}
		if e, ok := statusEntry(int(n)); ok {
			f.Entries = append(f.Entries, e)
			f.Facts = append(f.Facts, Fact{"status", m[1], e.Name})
			return min(causeNumbered, natural(&e))
		}
	}
	return unknown
}

// callPatterns are the patterns of failures, with the calls' names.
var callPatterns = sync.OnceValue(func() (all []*regexp.Regexp) {
	for i := range failures {
		f := &failures[i]
		name, _, _ := strings.Cut(f.call, " ")
		p := `\b` + name + `\b`
		if strings.Contains(f.call, " ") {
			p = `\x00` // only the pattern tells the state
		}
		if f.pattern != "" {
			p += "|" + f.pattern
		}
		all = append(all, regexp.MustCompile(p))
	}
	return all
})

// failing is a word in a line about a call that failed.
var failing = lazily(`fail|err|couldn't|could not|cannot|can't|unable|unsuccessful|invalid|denied|refused|not (found|supported|permitted|implemented)|in use|no such|no suitable|timed out|bad address|busy|unreachable|returned -|: -[0-9]|no data|no (ib|rdma|infiniband)|0 (ib|hca)|wasn't|please set`)

// failedCall recognizes a call that failed, and its errno.
func failedCall(line, lower string, f *Found) level {
	lower = strings.ReplaceAll(lower, "’", "'")
	if !failing().MatchString(lower) {
		return unknown
	}
	for i, p := range callPatterns() {
		if !p.MatchString(lower) {
			continue
		}
		c := &failures[i]
		if n := errnoIn(line); n != nil {
			f.Entries = append(f.Entries, c.with(n))
			f.Facts = append(f.Facts, Fact{"call", c.call, ""},
				Fact{"errno", strconv.Itoa(n.number), n.name + ": " + n.text})
			return causeNumbered
		}
		f.Entries = append(f.Entries, c.entry())
		f.Facts = append(f.Facts, Fact{"call", c.call, ""})
		return cause
	}
	return unknown
}

var messagePatterns = sync.OnceValue(func() (all []*regexp.Regexp) {
	for i := range messageTable {
		all = append(all, regexp.MustCompile(messageTable[i].pattern))
	}
	return all
})

// programMessage recognizes messages of programs and drivers.
func programMessage(_, lower string, f *Found) (top level) {
	lower = strings.ReplaceAll(lower, "’", "'")
	for i, p := range messagePatterns() {
		if !p.MatchString(lower) {
			continue
		}
		m := &messageTable[i]
		e := Entry{Message, m.name, 0, m.name, nil, m.means, m.causes}
		if m := irdmaEvent().FindStringSubmatch(lower); m != nil && strings.HasPrefix(e.Name, "irdma") {
			n, _ := strconv.ParseUint(m[1], 16, 32)
			text, ok := irdmaEvents[int(n)]
			if !ok {
				text = "not known here"
			}
			f.Facts = append(f.Facts, Fact{"asynchronous event", "0x" + m[1], text})
		}
		f.Entries = append(f.Entries, e)
		return m.level
	}
	return unknown
}

// knownTexts recognizes texts and names of entries in a line.
func knownTexts(line, lower string, f *Found) level {
	text := normal(line)
	about := rdmaWord().MatchString(line)
	own, also := textsOf()
	found := within(own, text)
	if len(found) == 0 {
		found = within(also, text)
	}
	found = slices.DeleteFunc(found, func(e Entry) bool {
		return !about && !strings.Contains(lower, strings.ToLower(e.Name)) &&
			!strings.Contains(text, fmt.Sprintf("(%d)", e.Number)) &&
			!(e.Kind == Status && distinctive().MatchString(text))
	})
	if len(f.Entries) > 0 { // a call's errno is explained by the call
		found = slices.DeleteFunc(found, func(e Entry) bool { return e.Kind == Call })
	}
	top := unknown
	for _, e := range found {
		l := cause
		if e.Kind == Status || e.Kind == Reject {
			l = causeNumbered
		}
		top = max(top, min(l, natural(&e)))
	}
	f.Entries = append(f.Entries, found...)
	return top
}

var circumstance = []struct {
	name string
	re   func() *regexp.Regexp
}{
	{"peer", lazily(`\bpeer ([0-9a-fA-F.:]+(?:%\w+)?)(?:<[0-9]+>)`)},
	{"device", lazily(`\b((?:mlx[45]|bnxt_re|irdma|rocep|ibp|hns|efa|erdma|rxe|siw|qedr|cxgb4)_?[0-9a-z]*[0-9][0-9a-z]*(?::[0-9]+)?)\b`)},
	{"local GID", lazily(`(?i)local ?gid ((?:[0-9a-f]{0,4}:){2,}[0-9a-f.:]*)`)},
	{"remote GID", lazily(`(?i)remote ?gids?\s?((?:[0-9a-f]{0,4}:){2,}[0-9a-f.:]*)`)},
	{"GID index", lazily(`(?i)gid index ([0-9]+)`)},
	{"queue pair", lazily(`\b(?:qpn?|QPN?|qp_num)[ =:]+(0x[0-9a-f]+|[0-9]+)\b`)},
	{"memory that may be pinned",
		lazily(`current: ([0-9]+ \w+|unlimited)|RLIMIT_MEMLOCK is ([0-9]+ bytes)`)},
}

// circumstances adds the names and addresses in the line, and puts them into the commands.
func (f *Found) circumstances(line string) {
	for _, c := range circumstance {
		m := c.re().FindStringSubmatch(line)
		if m == nil {
			continue
		}
		value := cmp.Or(m[1:]...)
		fact := Fact{Name: c.name, Value: value}
		if strings.HasPrefix(strings.ToLower(value), "fe80:") {
			fact.Means = "link-local: no router forwards it"
		}
		f.Facts = append(f.Facts, fact)
		switch c.name {
		case "peer":
			f.replace("PEER", value)
		case "device":
			name, _, _ := strings.Cut(value, ":")
			f.replace("DEVICE", name)
		}
	}
	if strings.Contains(line, "opcode=") || strings.Contains(line, "opcode ") && strings.Contains(line, "vendor err") {
		if m := opcodeNumber().FindStringSubmatch(line); m != nil {
			f.Facts = append(f.Facts, Fact{"opcode", m[1],
				"says nothing: of a completion with an error only wr_id, status, qp_num and vendor_err are set"})
		}
	}
}

var opcodeNumber = lazily(`opcode[= ]+([0-9]+)`)

// replace puts a value into the commands of the entries.
func (f *Found) replace(word, value string) {
	for i := range f.Entries {
		causes := slices.Clone(f.Entries[i].Causes)
		for j := range causes {
			causes[j].Check = strings.ReplaceAll(causes[j].Check, word, value)
		}
		f.Entries[i].Causes = causes
	}
}
