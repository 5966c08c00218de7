// SPDX-License-Identifier: Apache-2.0

package sim

// Watchdog is a switch's watchdog for pause storms: a port that got a pause, and has not been released since, no longer
// takes buffer from packets of other ports.
type Watchdog struct {
	Detect  Time // how long the pause has lasted; 0: there is no watchdog
	Restore Time // after this time without a pause, pauses count again
	Forward bool // send in spite of the pause, else drop
}

// watch is due at a port that has been paused, or not, since a time.
type watch struct {
	port   *port
	since  Time
	paused bool
}

// watch has the watchdog look at a port whose pause has just begun or ended.
func (p *port) watch(s *Sim) {
	w := &s.config.Switch.Watchdog
	if _, ok := p.owner.(*fabricSwitch); !ok || w.Detect == 0 || !p.paused && !p.storm {
		return
	}
	after := w.Restore
	if p.paused {
		after = w.Detect
	}
	s.at(s.now+after, &watch{p, s.now, p.paused})
}

func (w *watch) happen(s *Sim) {
	p := w.port
	if p.changed != w.since || p.paused != w.paused || p.storm == p.paused {
		return
	}
	if p.storm = p.paused; !p.storm {
		return
	}
	p.Stats.Storms++
	if s.config.Switch.Watchdog.Forward {
		p.send(s)
		return
	}
	p.Stats.Dropped += p.flush(s, classData, Dropped)
}
