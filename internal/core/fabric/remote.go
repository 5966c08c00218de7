// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
)

// Line carries the frames of a cable to another process.
type Line interface {
	// Wake is called with the fabric's lock held, when the port's link has changed, the cable has been pulled, or there
	// are frames to send that no other goroutine will send. It must not block.
	Wake()
	// Transmit is called without the lock, when there may be frames to send, by the goroutine that has caused that. It
	// must not block.
	Transmit()
}

// Remote is the end of a cable whose other end is in another process.
type Remote struct {
	f         *Fabric
	m         *member
	port      *link.Port
	farEnd    string // the other end, for people
	line      Line
	unplugged bool // pulled, or the fabric is closed
	due       bool // in Fabric.due
}

// Remote plugs a cable to another process into a port. The link is down until Up. far describes the other end.
func (f *Fabric) Remote(e End, far string, l Line) (*Remote, error) {
	var r *Remote
	err := f.withPort(e, func(m *member, p *link.Port) error {
		if err := f.checkUnplugged(e, p); err != nil {
			return err
		}
		r = &Remote{f: f, m: m, port: p, farEnd: far, line: l}
		if f.remotes == nil {
			f.remotes = make(map[*link.Port]*Remote)
		}
		f.remotes[p] = r
		return nil
	})
	return r, err
}

// checkUnplugged returns an error if a port has a cable.
func (f *Fabric) checkUnplugged(e End, p *link.Port) error {
	if p.Cable() != nil || f.remotes[p] != nil {
		return fmt.Errorf("%v has a cable already: pull it first", e)
	}
	return nil
}

// FreePorts returns the ports of switches without a cable, in the order of the topology.
func (f *Fabric) FreePorts() (free []End) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		for num := 1; num < len(m.state.Ports) && m.state.Type == node.Switch; num++ {
			if e := (End{m.name, num}); f.checkUnplugged(e, m.node.Port(num)) == nil {
				free = append(free, e)
			}
		}
	}
	return free
}

// Idle reports whether the port has nothing to send.
func (r *Remote) Idle() bool {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	return r.f.closed || r.unplugged || r.port.Idle()
}

// Enabled returns the widths and speeds that the port may use.
func (r *Remote) Enabled() (node.Width, node.Speed) {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	l := &r.port.State().Link
	return l.WidthEnabled, l.SpeedEnabled
}

// Up brings the link up to a port with these widths and speeds.
func (r *Remote) Up(w node.Width, s node.Speed) error {
	f := r.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.unplugged || f.closed {
		return ErrClosed
	}
	if r.linked() {
		return nil
	}
	err := f.net.RemoteUp(f.now(), r.port, w, s)
	f.step()
	return err
}

// WatchdogExpired reports that the other end was silent for too long, which the node's agent traps.
func (r *Remote) WatchdogExpired() {
	f := r.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if !r.unplugged && !f.closed {
		f.net.WatchdogExpired(f.now(), r.port)
		f.step()
	}
}

// Down takes the link down.
func (r *Remote) Down() {
	f := r.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if !r.unplugged && !f.closed {
		f.net.RemoteDown(f.now(), r.port)
		f.step()
	}
}

func (r *Remote) linked() bool { return r.port.State().Link.Logical != node.Down }

// State reports whether the link is up, and whether it may be. It returns ErrPulled or ErrClosed if the cable is
// no longer in the port.
func (r *Remote) State() (linked, may bool, err error) {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	switch {
	case r.f.closed:
		err = ErrClosed
	case r.unplugged:
		err = ErrPulled
	}
	return r.linked(), !r.m.off && r.port.State().Link.Physical != node.PhysDisabled, err
}

// ErrPulled means that a cable has been pulled.
var ErrPulled = errors.New("fabric: the cable has been pulled")

const (
	// maxFrames is how many frames Next returns at most.
	maxFrames = 32
	// maxLines is how many lines a goroutine has transmit, one after the other.
	maxLines = 16
)

// transmit has lines transmit that have frames to send. Lines that have frames again after maxLines are woken.
func (f *Fabric) transmit() {
	for n := 0; ; n++ {
		f.mu.Lock()
		if len(f.due) == 0 {
			f.mu.Unlock()
			return
		}
		r := f.due[0]
		f.due = slices.Delete(f.due, 0, 1)
		r.due = false
		if n >= maxLines {
			r.line.Wake()
			f.mu.Unlock()
			continue
		}
		f.mu.Unlock()
		r.line.Transmit()
	}
}

// Flush has lines transmit to which frames have gone since Next.
func (r *Remote) Flush() { r.f.transmit() }

// Next appends frames to send to buf, each behind room for a header of so many bytes, and the offset of the end of each
// to ends. The caller calls Flush in the end.
func (r *Remote) Next(buf []byte, ends []int, header int) ([]byte, []int) {
	f := r.f
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	for range maxFrames {
		if r.unplugged || f.closed {
			break
		}
		start := len(buf)
		b, ok := f.net.NextFrame(now, r.port, append(buf, make([]byte, header)...))
		if !ok {
			buf = b[:start]
			break
		}
		buf = b
		ends = append(ends, len(b))
	}
	if len(ends) > 0 {
		f.run()
	}
	return buf, ends
}

// Handle handles received frames.
func (r *Remote) Handle(frames [][]byte) {
	f := r.f
	f.mu.Lock()
	if r.unplugged || f.closed {
		f.mu.Unlock()
		return
	}
	now := f.now()
	for _, b := range frames {
		f.net.HandleFrame(now, r.port, b)
	}
	f.stepAndUnlock()
}

// Close pulls the cable.
func (r *Remote) Close() {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	if !r.unplugged && !r.f.closed {
		r.f.unplug(r)
		r.f.step()
	}
}

// unplug pulls the cable, with the lock held.
func (f *Fabric) unplug(r *Remote) {
	r.unplugged = true
	delete(f.remotes, r.port)
	f.net.RemoteDown(f.now(), r.port)
	r.line.Wake()
}
