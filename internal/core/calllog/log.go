// SPDX-License-Identifier: Apache-2.0

package calllog

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/ramjet-rdma/ramjet/internal/base/environ"
)

// The environment's variables for the log of a process.
const (
	Variable       = "RAMJET_LOG"        // the log's file; - stands for standard error
	FilterVariable = "RAMJET_LOG_FILTER" // its filter, see [ParseFilter]
)

// Log writes a line for each call, with one write.
type Log struct {
	w      io.Writer
	filter *Filter
	pid    int

	mu      sync.Mutex // of the fields that follow, never held while writing
	objects map[Object]object
	counts  map[string]uint32
}

// object is a known object: its number among the objects of its kind, from 1.
type object struct {
	n   uint32
	qpn uint32 // of queue pairs; 0: not known
}

// seen is an object in a line; n is 0 if the object is not known.
type seen struct {
	kind   string
	n, qpn uint32
}

// New makes a log. Each Write to w has one whole line. Several goroutines may write at once.
func New(w io.Writer, filter *Filter) *Log {
	return &Log{w: w, filter: filter, pid: os.Getpid(), objects: map[Object]object{}, counts: map[string]uint32{}}
}

var process struct {
	sync.Mutex
	known bool
	log   *Log
	err   error
}

// Process returns the log that the environment asks for, or nil. Programs with more rights than their user have none.
func Process() (*Log, error) {
	process.Lock()
	defer process.Unlock()
	if !process.known {
		process.known = true
		process.log, process.err = fromEnvironment()
	}
	return process.log, process.err
}

func fromEnvironment() (*Log, error) {
	name := environ.Get(Variable)
	if name == "" {
		return nil, nil
	}
	f, err := ParseFilter(environ.Get(FilterVariable))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", FilterVariable, err)
	}
	if name == "-" {
		return New(os.Stderr, f), nil
	}
	file, err := OpenFile(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Variable, err)
	}
	return New(file, f), nil
}

// OpenFile opens a log's file for appending, and creates it if it does not exist. %p in the name stands for the
// process's id. Several processes may write to one file.
func OpenFile(name string) (*os.File, error) {
	name = strings.ReplaceAll(name, "%p", strconv.Itoa(os.Getpid()))
	return os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
}

// Pending is a call that has begun. A nil Pending is a call that is not logged; its methods do nothing.
type Pending struct {
	log   *Log
	name  string
	tid   int // 0: none
	args  []Arg
	seen  []seen
	gone  []ended
	began time.Time

	unseen bool // it gets no line, but its objects get numbers
}

// ended is an object that a call destroys, with its number.
type ended struct {
	Object
	n uint32
}

// Result is how a call ended.
type Result struct {
	Value   any      // the result
	Void    bool     // it returns nothing, and Value is nil
	Failed  bool     // it returned an error
	Nothing bool     // a poll found no completion: it is not logged
	Errno   string   // if it failed: the errno's name, such as EINVAL
	Reason  string   // if it failed: more about the error; may be empty
	Out     []Arg    // arguments that it filled in: they replace arguments of the same name, or follow the others
	Made    []Object // objects that it created: they get new numbers
	QPN     uint32   // the number of the queue pair Made[0]; 0: it is none
}

// Begin notes that a call begins. tid is the thread's id; 0: lines have none. Begin calls args at once. If the filter
// excludes the call it does not, and returns nil.
func (l *Log) Begin(name string, tid int, args func() []Arg) *Pending {
	return l.begin(name, tid, args, polls(name))
}

// BeginPoll is Begin for a call that does not wait. It gets no line as it begins: most polls find nothing.
func (l *Log) BeginPoll(name string, tid int, args func() []Arg) *Pending {
	return l.begin(name, tid, args, true)
}

func (l *Log) begin(name string, tid int, args func() []Arg, poll bool) *Pending {
	if l == nil || !l.filter.wants(name) {
		return nil
	}
	p := &Pending{log: l, name: name, tid: tid}
	p.args = l.resolve(args(), &p.seen)
	p.began = time.Now()
	if l.filter.Enter && !l.filter.Errors && !poll && l.filter.concerns(p.seen) {
		l.write(p.line(p.began, nil))
	}
	return p
}

// Unseen notes that a call begins that the filter excludes. The objects that it creates get numbers all the same.
func (l *Log) Unseen() *Pending { return &Pending{log: l, unseen: true} }

// End notes that the call has ended, and writes its line.
func (p *Pending) End(r *Result) {
	if p == nil {
		return
	}
	took := time.Since(p.began)
	l := p.log
	l.mu.Lock()
	for i, o := range r.Made {
		made := l.count(o)
		if i == 0 && r.QPN != 0 {
			made.qpn = r.QPN
			l.objects[o] = made
		}
	}
	l.mu.Unlock()
	for _, a := range l.resolve(r.Out, &p.seen) {
		if i := slices.IndexFunc(p.args, func(b Arg) bool { return b.Name == a.Name }); i >= 0 {
			p.args[i] = a
			continue
		}
		p.args = append(p.args, a)
	}
	value := l.value(r.Value, &p.seen)
	if !r.Failed {
		l.forget(p.gone)
	}
	if p.unseen || r.Nothing || l.filter.Errors && !r.Failed || !l.filter.concerns(p.seen) {
		return
	}
	l.write(p.line(p.began, &ending{r, value, took}))
}

// Destroys names objects that the call destroys unless it fails. It is for before the call: another thread may get the
// same addresses for new objects before this call returns.
func (p *Pending) Destroys(objects ...Object) {
	if p == nil {
		return
	}
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	for _, o := range objects {
		if known, ok := p.log.objects[o]; ok {
			p.gone = append(p.gone, ended{o, known.n})
		}
	}
}

// forget removes objects, except new ones at the same address.
func (l *Log) forget(gone []ended) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range gone {
		if l.objects[o.Object].n == o.n {
			delete(l.objects, o.Object)
		}
	}
}

// Number notes the QPN of a queue pair, for filters such as object=qp:0x11.
func (l *Log) Number(qp uintptr, qpn uint32) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := Object{"qp", qp}
	o, ok := l.objects[key]
	if !ok {
		o = l.count(key)
	}
	o.qpn = qpn
	l.objects[key] = o
}

// Know gives numbers to objects that have none yet, such as objects that the library created for the program.
func (l *Log) Know(objects ...Object) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range objects {
		if _, ok := l.objects[o]; !ok && o.Key != 0 {
			l.count(o)
		}
	}
}

// count gives an object the next number of its kind. l.mu is held.
func (l *Log) count(o Object) object {
	l.counts[o.Kind]++
	made := object{n: l.counts[o.Kind]}
	l.objects[o] = made
	return made
}

// resolve returns arguments with names in the place of objects, and appends the objects to all.
func (l *Log) resolve(args []Arg, all *[]seen) []Arg {
	out := make([]Arg, len(args), len(args)+2)
	for i, a := range args {
		out[i] = Arg{a.Name, l.value(a.Value, all)}
	}
	return out
}

func (l *Log) value(v any, all *[]seen) any {
	switch v := v.(type) {
	case Object:
		if v.Key == 0 {
			return nil
		}
		l.mu.Lock()
		o := l.objects[v]
		l.mu.Unlock()
		*all = append(*all, seen{v.Kind, o.n, o.qpn})
		return named{v.Kind, o.n, v.Key}
	case Fields:
		return Fields(l.resolve(v, all))
	case List:
		out := make(List, len(v))
		for i, e := range v {
			out[i] = l.value(e, all)
		}
		return out
	}
	return v
}

// polls reports whether a call polls a completion queue.
func polls(call string) bool {
	return call == "ibv_poll_cq" || call == "ibv_start_poll" || call == "ibv_next_poll"
}

// write writes a line. A call does not fail because its log cannot be written: the log then ends early.
func (l *Log) write(line []byte) { _, _ = l.w.Write(line) }

// ending is the end of a call, with names in the place of objects.
type ending struct {
	*Result
	value any
	took  time.Duration
}

// line returns the line of a call that has ended, or, if end is nil, that begins.
func (p *Pending) line(at time.Time, end *ending) []byte {
	if p.log.filter.JSON {
		return p.json(at, end)
	}
	b := strconv.AppendInt(make([]byte, 0, 256), int64(p.log.pid), 10)
	if p.tid != 0 {
		b = strconv.AppendInt(append(b, '/'), int64(p.tid), 10)
	}
	b = at.AppendFormat(append(b, ' '), "15:04:05.000000 ")
	b = appendArgs(append(append(b, p.name...), '('), p.args)
	if end == nil {
		return append(b, " ...\n"...)
	}
	b = append(b, ')')
	if !end.Void {
		b = appendText(append(b, " = "...), end.value)
	}
	if end.Failed {
		b = append(append(b, ' '), end.Errno...)
		if end.Reason != "" {
			b = append(append(append(b, " ("...), strings.Map(printable, end.Reason)...), ')')
		}
	}
	return fmt.Appendf(b, " <%.6f>\n", end.took.Seconds())
}

// printable puts blanks in the place of control characters, such as ends of lines.
func printable(r rune) rune {
	if unicode.IsControl(r) {
		return ' '
	}
	return r
}

func (p *Pending) json(at time.Time, end *ending) []byte {
	b := at.AppendFormat([]byte(`{"time":"`), time.RFC3339Nano)
	b = strconv.AppendInt(append(b, `","pid":`...), int64(p.log.pid), 10)
	if p.tid != 0 {
		b = strconv.AppendInt(append(b, `,"tid":`...), int64(p.tid), 10)
	}
	b = appendJSONString(append(b, `,"call":`...), p.name)
	b = appendJSON(append(b, `,"args":`...), Fields(p.args))
	if end == nil {
		return append(b, `,"begins":true}`+"\n"...)
	}
	if !end.Void {
		b = appendJSON(append(b, `,"result":`...), end.value)
	}
	if end.Failed {
		b = appendJSONString(append(b, `,"errno":`...), end.Errno)
		if end.Reason != "" {
			b = appendJSONString(append(b, `,"error":`...), end.Reason)
		}
	}
	b = strconv.AppendInt(append(b, `,"duration_ns":`...), end.took.Nanoseconds(), 10)
	return append(b, "}\n"...)
}
