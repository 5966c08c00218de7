// SPDX-License-Identifier: Apache-2.0

package nvme_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/nvme"
	"github.com/ramjet-rdma/ramjet/nvme/dhchap"
	"github.com/ramjet-rdma/ramjet/nvme/wire"
	"github.com/ramjet-rdma/ramjet/rdmatest"
)

func newSecret(t testing.TB) dhchap.Secret {
	t.Helper()
	s, err := dhchap.NewSecret(dhchap.SHA256, 32)
	ok(t, err)
	return s
}

// guarded makes a setting in which hostNQN has to authenticate, and another host need not.
func guarded(t testing.TB, kind string, s nvme.HostSecrets) *setting {
	t.Helper()
	g := &setting{target: nvme.NewTarget(nvme.TargetOptions{})}
	var err error
	g.sub, err = g.target.AddSubsystem(nvme.SubsystemOptions{NQN: diskNQN, Hosts: []string{hostNQN + ":free"},
		Secrets: map[string]nvme.HostSecrets{hostNQN: s}})
	ok(t, err)
	ok(t, g.sub.AddNamespace(disk(1, 64<<10)))
	targets, hosts := rdmatest.PairOf(t, kind)
	g.port, err = g.target.Listen(t.Context(), targets, ":0")
	ok(t, err)
	t.Cleanup(func() { g.target.Close() })
	g.dev, g.targets = hosts, targets
	return g
}

// A host that proves to have its secret gets in, on every queue, and is told whether the target has the other one.
func TestAuthentication(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		secrets := nvme.HostSecrets{Host: newSecret(t), Controller: newSecret(t), Hash: dhchap.SHA384,
			Group: dhchap.FFDHE2048}
		s := guarded(t, kind, secrets)
		for _, mutual := range []bool{false, true} {
			o := nvme.HostOptions{Secret: secrets.Host, Queues: 2}
			if mutual {
				o.ControllerSecret = secrets.Controller
			}
			d, err := s.dial(t, o).Open(within(t), 1)
			ok(t, err)
			for range 4 {
				_, err = d.ReadAt(make([]byte, 4096), 0)
				ok(t, err)
			}
		}
		d, err := s.dial(t, nvme.HostOptions{NQN: hostNQN + ":free", Secret: secrets.Host}).Open(within(t), 1)
		ok(t, err)
		_, err = d.ReadAt(make([]byte, 512), 0)
		ok(t, err)
		for name, o := range map[string]nvme.HostOptions{
			"no secret":                     {NQN: hostNQN},
			"another secret":                {NQN: hostNQN, Secret: newSecret(t)},
			"the target has another secret": {NQN: hostNQN, Secret: secrets.Host, ControllerSecret: newSecret(t)},
			"a target that would not say it": {NQN: hostNQN + ":free", Secret: secrets.Host,
				ControllerSecret: secrets.Controller},
		} {
			if _, err := nvme.Dial(within(t), s.dev, s.addr(), diskNQN, o); !errors.Is(err, nvme.ErrAuthentication) {
				t.Errorf("%s: %v", name, err)
			}
		}
		_, err = nvme.Dial(within(t), s.dev, s.addr(), diskNQN, nvme.HostOptions{NQN: hostNQN + ":other"})
		if !errors.Is(err, wire.ConnectInvalidHost) {
			t.Error("a host that is not named:", err)
		}
	})
}

// A host that has lost its connection authenticates again, and is given up when its secret is another by then.
func TestAuthenticationAgain(t *testing.T) {
	secrets := nvme.HostSecrets{Host: newSecret(t), Controller: newSecret(t)}
	s := guarded(t, "shm", secrets)
	c, err := nvme.Dial(within(t), s.dev, s.addr(), diskNQN, nvme.HostOptions{NQN: hostNQN, Secret: secrets.Host,
		ControllerSecret: secrets.Controller, KeepAlive: keepAlive, Timeout: patience,
		ReconnectDelay: time.Millisecond})
	ok(t, err)
	defer c.Close()
	d, err := c.Open(within(t), 1)
	ok(t, err)
	target, address := s.target, s.addr()
	start := func(s2 nvme.HostSecrets) {
		t.Helper()
		ok(t, target.Close())
		target = nvme.NewTarget(nvme.TargetOptions{})
		sub, err := target.AddSubsystem(nvme.SubsystemOptions{NQN: diskNQN,
			Secrets: map[string]nvme.HostSecrets{hostNQN: s2}})
		ok(t, err)
		ok(t, sub.AddNamespace(disk(1, 64<<10)))
		_, err = target.Listen(t.Context(), s.targets, address)
		ok(t, err)
	}
	start(secrets)
	_, err = d.Read(within(t), make([]byte, 512), 0)
	ok(t, err)
	start(nvme.HostSecrets{Host: newSecret(t)})
	select {
	case <-c.Done():
	case <-time.After(patience):
		t.Fatal("a host whose secret is wrong goes on")
	}
	if !errors.Is(c.Err(), nvme.ErrAuthentication) {
		t.Error(c.Err())
	}
	ok(t, target.Close())
}

// Without a proof there are no commands but authentication's, and malformed messages are refused.
func TestUnauthenticated(t *testing.T) {
	s := guarded(t, "shm", nvme.HostSecrets{Host: newSecret(t)})
	r, err := connect(t, s, admin())
	ok(t, err)
	done := r.connectTo(wire.ConnectParams{SQSize: 31}, connectData)
	if done.Status != wire.Success || done.Result&wire.ConnectAuthenticate == 0 {
		t.Fatalf("%+v", done)
	}
	var enable, send, receive wire.Command
	enable.SetProperty(wire.PropertySet, wire.PropertyCC, 4, wire.CCDefaultEnable)
	send.SetAuth(wire.AuthSend, 8)
	receive.SetAuth(wire.AuthReceive, 16)
	send.SGL, receive.SGL = r.keyed(8), r.keyed(16)
	with := func(c wire.Command, change func(c *wire.Command)) wire.Command {
		change(&c)
		return c
	}
	for _, c := range []struct {
		name string
		cmd  wire.Command
		want wire.Status
	}{
		{"enable", enable, wire.AuthenticationRequired},
		{"identify", wire.Command{Opcode: wire.AdminIdentify, CDW10: 1, SGL: r.keyed(4096)},
			wire.AuthenticationRequired},
		{"event", wire.Command{Opcode: wire.AdminAsyncEvent}, wire.AuthenticationRequired},
		{"receive before send", receive, wire.CommandSequenceError},
		{"another protocol", with(send, func(c *wire.Command) { c.CDW10 = 0 }), wire.InvalidField},
		{"receive another protocol", with(receive, func(c *wire.Command) { c.CDW10 = 0 }), wire.InvalidField},
		{"nothing", with(send, func(c *wire.Command) { c.CDW11 = 0 }), wire.InvalidField},
		{"too much", with(send, func(c *wire.Command) { c.CDW11 = 4097 }), wire.InvalidField},
		{"receive too much", with(receive, func(c *wire.Command) { c.CDW11 = 1 << 31 }), wire.InvalidField},
		{"another length", with(send, func(c *wire.Command) { c.CDW11 = 9 }), wire.SGLLengthInvalid},
		{"no message", send, wire.Success},
		{"receive in a byte", with(receive, func(c *wire.Command) { c.CDW11, c.SGL = 1, r.keyed(1) }),
			wire.InvalidField},
		{"no message again", send, wire.Success},
		{"enable afterwards", enable, wire.AuthenticationRequired},
	} {
		if done := r.ask(c.cmd, nil); done.Status != c.want {
			t.Errorf("%s: %+v, not %v", c.name, done, c.want)
		}
	}
	done = r.ask(receive, nil)
	if err := dhchap.Refusal(r.data.Bytes()[:16]); done.Status != wire.Success || err == nil {
		t.Errorf("%+v, %v: not refused", done, err)
	}
	io, err := connect(t, s, (&wire.Request{QID: 1, HostRecvs: 32, HostSends: 31, Controller: 1}).Append(nil))
	ok(t, err)
	d := connectData
	d.Controller = 1
	if done := io.connectTo(wire.ConnectParams{QID: 1, SQSize: 31}, d); done.Status != wire.CommandSequenceError {
		t.Errorf("an I/O queue of a controller that is not enabled: %+v", done)
	}
	free := set(t, "shm", nvme.TargetOptions{})
	r, err = connect(t, free, admin())
	ok(t, err)
	r.connectTo(wire.ConnectParams{SQSize: 31}, connectData)
	send.SGL = r.keyed(8)
	if done := r.ask(send, nil); done.Status != wire.CommandSequenceError {
		t.Errorf("a host that need not authenticate: %+v", done)
	}
}

// Wrong secrets of a configuration are refused in words.
func TestSecretConfiguration(t *testing.T) {
	target := nvme.NewTarget(nvme.TargetOptions{})
	secret := newSecret(t)
	for name, o := range map[string]nvme.SubsystemOptions{
		"any host":   {AnyHost: true, Secrets: map[string]nvme.HostSecrets{hostNQN: {Host: secret}}},
		"no secret":  {Secrets: map[string]nvme.HostSecrets{hostNQN: {}}},
		"no NQN":     {Secrets: map[string]nvme.HostSecrets{"me": {Host: secret}}},
		"no hash":    {Secrets: map[string]nvme.HostSecrets{hostNQN: {Host: secret, Hash: 4}}},
		"no DHgroup": {Secrets: map[string]nvme.HostSecrets{hostNQN: {Host: secret, Group: 6}}},
	} {
		o.NQN = diskNQN
		if _, err := target.AddSubsystem(o); err == nil {
			t.Error(name)
		}
	}
	if _, err := nvme.Dial(t.Context(), nil, "", diskNQN, nvme.HostOptions{ControllerSecret: secret}); err == nil {
		t.Error("a controller's secret alone")
	}
}
