// SPDX-License-Identifier: Apache-2.0

package rdmatest_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/rdmatest"
	"github.com/ramjet-rdma/ramjet/rnet"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// kinds open the devices of two hosts.
var kinds = map[string]func(w *rdmatest.World, a, b *rdmatest.Host) (*verbs.Device, *verbs.Device){
	"roce": func(_ *rdmatest.World, a, b *rdmatest.Host) (*verbs.Device, *verbs.Device) {
		return a.RoCE(), b.RoCE()
	},
	"iwarp": func(_ *rdmatest.World, a, b *rdmatest.Host) (*verbs.Device, *verbs.Device) {
		return a.IWARP(), b.IWARP()
	},
	"infiniband": func(w *rdmatest.World, a, b *rdmatest.Host) (*verbs.Device, *verbs.Device) {
		f := w.Fabric("star:3")
		return a.InfiniBand(f, "host-1"), b.InfiniBand(f, "host-2")
	},
}

// converse has b send messages to a server on a, which answers each.
func converse(w *rdmatest.World, a, b *rdmatest.Host, server, client *verbs.Device, messages int) error {
	l, err := cm.Listen(context.Background(), server, ":7")
	if err != nil {
		return err
	}
	a.Go(func(ctx context.Context) error {
		for {
			conn, err := l.Accept(ctx)
			if err != nil {
				return err
			}
			a.Go(func(ctx context.Context) error {
				defer conn.Close()
				for {
					m, err := conn.Recv(ctx)
					if err != nil {
						return nil
					}
					err = conn.Send(ctx, m.Bytes())
					m.Release()
					if err != nil {
						return nil
					}
				}
			})
		}
	})
	return b.Go(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
		defer cancel()
		conn, err := cm.Dial(ctx, client, a.Addr().String()+":7")
		if err != nil {
			return err
		}
		defer conn.Close()
		for i := range messages {
			want := fmt.Sprint("message ", i)
			if err := conn.Send(ctx, []byte(want)); err != nil {
				return err
			}
			m, err := conn.Recv(ctx)
			if err != nil {
				return err
			}
			if got := string(m.Bytes()); got != want {
				w.Errorf("%q comes back as %q", want, got)
			}
			m.Release()
		}
		return nil
	}).Wait()
}

// TestHello: the example is right.
func TestHello(t *testing.T) { rdmatest.Run(t, 300, hello) }

func TestKinds(t *testing.T) {
	for kind, open := range kinds {
		t.Run(kind, func(t *testing.T) {
			rdmatest.Run(t, 12, func(w *rdmatest.World) {
				a, b := w.Host("server"), w.Host("client")
				server, client := open(w, a, b)
				w.Draw(rdmatest.Packets|rdmatest.Passing|rdmatest.Fatal, a, b)
				if err := converse(w, a, b, server, client, 1+w.Rand.IntN(30)); err != nil && !a.Died() && !b.Died() {
					w.Fatal(err)
				}
			})
		})
	}
}

// TestTCP has a connection beside RDMA, by the host's name, and one of rnet.
func TestTCP(t *testing.T) {
	rdmatest.Run(t, 20, func(w *rdmatest.World) {
		a, b := w.Host("server"), w.Host("client")
		server, client := a.RoCE(), b.RoCE()
		w.Draw(rdmatest.Packets | rdmatest.Partitions | rdmatest.OneWay | rdmatest.Stops)
		l, err := a.Listen(80)
		if err != nil {
			w.Fatal(err)
		}
		rl, err := rnet.Listen(t.Context(), server, ":80")
		if err != nil {
			w.Fatal(err)
		}
		for _, accept := range []func() (io.ReadWriteCloser, error){
			func() (io.ReadWriteCloser, error) { return l.Accept() },
			func() (io.ReadWriteCloser, error) { return rl.Accept() },
		} {
			a.Go(func(context.Context) error {
				c, err := accept()
				if err != nil {
					return err
				}
				defer c.Close()
				_, err = io.Copy(c, c)
				return err
			})
		}
		size := 1 + w.Rand.IntN(300_000)
		err = b.Go(func(ctx context.Context) error {
			c, err := b.Dial(ctx, "server:80")
			if err != nil {
				return err
			}
			r, err := rnet.Dial(ctx, client, a.Addr().String()+":80")
			if err != nil {
				return err
			}
			for _, c := range []io.ReadWriteCloser{c, r} {
				go func() {
					c.Write(make([]byte, size))
					c.(interface{ CloseWrite() error }).CloseWrite()
				}()
				n, err := io.Copy(io.Discard, c)
				if err != nil || n != int64(size) {
					return fmt.Errorf("%T: %d bytes of %d: %w", c, n, size, err)
				}
				c.Close()
			}
			return nil
		}).Wait()
		if err != nil {
			w.Fatal(err)
		}
	})
}

// TestKilled: the system closes the connections of a process that is killed if they are TCP's, and its peer hears it at
// once. The other connections hear nothing: their messages have no answer.
func TestKilled(t *testing.T) {
	for kind, open := range kinds {
		t.Run(kind, func(t *testing.T) {
			rdmatest.Run(t, 6, func(w *rdmatest.World) {
				a, b := w.Host("server"), w.Host("client")
				server, client := open(w, a, b)
				var killed time.Time
				w.After(time.Duration(1+w.Rand.IntN(2000))*time.Microsecond, func() {
					killed = time.Now()
					a.Kill()
				})
				if err := converse(w, a, b, server, client, 10_000); err == nil {
					w.Fatal("nothing fails")
				}
				if took := time.Since(killed); (took < time.Second) != (kind == "iwarp") {
					w.Errorf("the client hears of it after %v", took)
				}
			})
		})
	}
}

// TestRemove: operations of a device that is removed fail, and so do its peer's operations with it. A program that only
// waits for a message hears nothing, and waits for as long as its context lets it.
func TestRemove(t *testing.T) {
	for kind, open := range kinds {
		t.Run(kind, func(t *testing.T) {
			rdmatest.Run(t, 6, func(w *rdmatest.World) {
				a, b := w.Host("server"), w.Host("client")
				server, client := open(w, a, b)
				removed := []*rdmatest.Host{a, b}[w.Seed()%2]
				w.After(time.Duration(1+w.Rand.IntN(2000))*time.Microsecond, removed.Remove)
				if err := converse(w, a, b, server, client, 10_000); err == nil {
					w.Fatal("nothing fails")
				}
			})
		})
	}
}

// TestRemovedSends: a program whose device is removed learns of it by its sends.
func TestRemovedSends(t *testing.T) {
	for kind, open := range kinds {
		t.Run(kind, func(t *testing.T) {
			rdmatest.Run(t, 3, func(w *rdmatest.World) {
				a, b := w.Host("server"), w.Host("client")
				server, client := open(w, a, b)
				conns := make(chan *cm.Conn, 1)
				a.Go(func(ctx context.Context) error {
					l, err := cm.Listen(ctx, server, ":7")
					if err != nil {
						return err
					}
					defer l.Close()
					conn, err := l.Accept(ctx)
					conns <- conn
					return err
				})
				err := b.Go(func(ctx context.Context) error {
					conn, err := cm.Dial(ctx, client, a.Addr().String()+":7")
					if err != nil {
						return err
					}
					defer conn.Close()
					defer (<-conns).Close()
					b.Remove()
					start := time.Now()
					if err := conn.Send(ctx, []byte("message")); err == nil {
						w.Error("a device that is removed sends")
					}
					if took := time.Since(start); took > time.Minute {
						w.Errorf("that fails after %v", took)
					}
					return nil
				}).Wait()
				if err != nil {
					w.Fatal(err)
				}
			})
		})
	}
}

// TestShrunk: none of the faults that are left can be taken away, also one that was needed as long as others were
// there.
func TestShrunk(t *testing.T) {
	f := rdmatest.Find(t, 1, func(w *rdmatest.World) {
		first, second, third := w.Fault("first"), w.Fault("second"), w.Fault("third")
		if second && (third || !first) {
			w.Fatal("it fails")
		}
	})
	if f == nil || f.Drawn != 3 || !slices.Equal(f.Faults, []int{2}) {
		t.Errorf("%v, want fault 2 of 3", f)
	}
}

// A wrong argument fails the test, with a reason.
func TestCannotBe(t *testing.T) {
	for want, ask := range map[string]func(w *rdmatest.World, a, b *rdmatest.Host){
		`there is a host "a" already`: func(w *rdmatest.World, _,
			_ *rdmatest.Host) {
			w.Host("a")
		},
		"the path from a to b: Loss is 3: it is a probability": path(func(p *rdmatest.Path) { p.Loss = 3 }),
		"the path from a to b: Corrupt is NaN": path(
			func(p *rdmatest.Path) { p.Corrupt = math.NaN() }),
		"rate 0, delay -1ns, jitter 0s: none of them can be ne": path(func(p *rdmatest.Path) { p.Delay = -1 }),
		"with Reorder 0.5 and Jitter 0 packets would keep":      path(func(p *rdmatest.Path) { p.Reorder = 0.5 }),
		"": path(func(p *rdmatest.Path) { p.Loss = 1 }),
	} {
		f := rdmatest.Find(t, 1, func(w *rdmatest.World) { ask(w, w.Host("a"), w.Host("b")) })
		if want == "" && f != nil || want != "" &&
			(f == nil || len(f.Texts) != 1 || !strings.Contains(f.Texts[0], want)) {
			t.Errorf("%v, and not %q", f, want)
		}
	}
}

// path changes the path from a to b.
func path(change func(*rdmatest.Path)) func(*rdmatest.World, *rdmatest.Host, *rdmatest.Host) {
	return func(w *rdmatest.World, a, b *rdmatest.Host) { w.SetPath(a, b, change) }
}

// TestDrawAgain: a second call of Draw, for faults of other kinds, leaves the path as it is.
func TestDrawAgain(t *testing.T) {
	rdmatest.Run(t, 3, func(w *rdmatest.World) {
		a, b := w.Host("a"), w.Host("b")
		w.SetPath(a, b, func(p *rdmatest.Path) { p.Delay, p.Rate = time.Second, 1e6 })
		w.Draw(rdmatest.Loss | rdmatest.Fatal)
		path(func(p *rdmatest.Path) {
			if p.Delay != time.Second || p.Rate != 1e6 {
				w.Errorf("the path's delay is %v and its rate %d", p.Delay, p.Rate)
			}
		})(w, a, b)
	})
}
