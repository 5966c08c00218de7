// SPDX-License-Identifier: Apache-2.0

package portshare

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
)

func TestMain(m *testing.M) {
	testrun.Waits()
	os.Exit(m.Run())
}

// names counts the addresses that tests have made up.
var names atomic.Uint32

// site is an address whose sockets are no UDP sockets. It records forwarded messages, and the
// slot that is steered to.
type site struct {
	t       *testing.T
	name    string
	steered atomic.Int32
	mu      sync.Mutex
	got     map[*Member][]string
}

func newSite(t *testing.T) *site {
	s := &site{t: t, name: fmt.Sprintf("test/%d/%d", os.Getpid(), names.Add(1)), got: make(map[*Member][]string)}
	s.steered.Store(-1)
	return s
}

func (s *site) config(m **Member) Config {
	return Config{
		Name: s.name,
		Group: func() (fds []int, err error) {
			for range Slots {
				fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
				if err != nil {
					return nil, err
				}
				fds = append(fds, fd)
			}
			return fds, nil
		},
		Steer: func(_, slot int) error { s.steered.Store(int32(slot)); return nil },
		Adopt: func(int) error { return nil },
		Receive: func(msg []byte) {
			s.mu.Lock()
			s.got[*m] = append(s.got[*m], string(msg))
			s.mu.Unlock()
		},
	}
}

func (s *site) found() *Member {
	s.t.Helper()
	return s.make(Create)
}

func (s *site) join() *Member {
	s.t.Helper()
	return s.make(Join)
}

// beside makes this process a member once more.
func (s *site) beside(m *Member) *Member {
	s.t.Helper()
	return s.make(m.Join)
}

func (s *site) make(f func(Config) (*Member, error)) *Member {
	s.t.Helper()
	var m *Member
	made, err := f(s.config(&m))
	if err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	m = made
	s.mu.Unlock()
	s.t.Cleanup(func() { made.Close() })
	return made
}

func (s *site) eventually(what string, cond func() bool) {
	s.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !cond(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			s.t.Fatal("never: " + what)
		}
	}
}

func (s *site) leads(m *Member) bool {
	c := m.common.Load()
	if c == nil {
		return true
	}
	slot, err := c.board.leader()
	return err == nil && slot == m.slot
}

func TestForward(t *testing.T) {
	s := newSite(t)
	a := s.found()
	if a.Shared() || a.Forward(1, []byte("x")) || !a.IsActive(0) || a.IsActive(1) {
		t.Error("a process alone has others")
	}
	b, c := s.join(), s.join()
	for i, m := range []*Member{a, b, c} {
		if m.Slot() != i || !m.Shared() || !m.IsActive(0) || !m.IsActive(1) || !m.IsActive(2) || m.IsActive(3) {
			t.Errorf("member %d has slot %d", i, m.Slot())
		}
	}
	if !a.Forward(2, []byte("from a")) || !b.Forward(2, []byte("from b")) || !c.Forward(0, []byte("from c")) {
		t.Error("a box is full")
	}
	s.eventually("all is forwarded", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return fmt.Sprint(s.got[a], s.got[b], s.got[c]) == "[from c] [] [from a from b]"
	})
	sent := 0
	for ; sent < 1<<20 && a.Forward(3, make([]byte, 4096)); sent++ { // no member has slot 3
	}
	if sent == 0 || sent == 1<<20 {
		t.Errorf("a box that nobody empties took %d messages", sent)
	}
	s.join()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.got[nil] != nil {
		t.Error("a new member got what was for one before it")
	}
}

func TestClaims(t *testing.T) {
	s := newSite(t)
	const whole = ^uint64(0)
	a := s.found()
	if err := a.Claim(7, whole); err != nil {
		t.Fatal(err)
	}
	b, c := s.join(), s.join() // after the claim
	for _, m := range []*Member{b, c} {
		if err := m.Claim(7, whole); !Claimed(err) {
			t.Errorf("claiming what another has: %v", err)
		}
		if slot, ok := m.Owner(7); !ok || slot != 0 {
			t.Errorf("owner of 7: %d, %v", slot, ok)
		}
	}
	if err := b.Claim(0, whole&^0xff); !Claimed(err) {
		t.Errorf("claiming a range with what another has: %v", err)
	}
	if err := b.Claim(0x100, whole&^0xff); err != nil {
		t.Error(err)
	}
	if slot, ok := a.Owner(0x142); !ok || slot != 1 {
		t.Errorf("owner of 0x142: %d, %v", slot, ok)
	}
	if _, ok := a.Owner(0x242); ok {
		t.Error("0x242 has an owner")
	}
	if err := a.Release(7, whole); err != nil {
		t.Error(err)
	}
	if err := c.Claim(7, whole); err != nil {
		t.Errorf("claiming what was released: %v", err)
	}
	b.Close()
	if err := c.Claim(0x142, whole); err != nil {
		t.Errorf("claiming what one had who left: %v", err)
	}
	// Of two members that claim at once one gets it.
	for service := uint64(1000); service < 1100; service++ {
		var won atomic.Int32
		var wg sync.WaitGroup
		for _, m := range []*Member{a, c} {
			wg.Go(func() {
				if err := m.Claim(service, whole); err == nil {
					won.Add(1)
				} else if !Claimed(err) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d have service %d", won.Load(), service)
		}
	}
}

func TestSuccession(t *testing.T) {
	s := newSite(t)
	members := []*Member{s.found(), s.join(), s.join(), s.join()}
	for len(members) > 1 {
		i := slices.IndexFunc(members, s.leads)
		if i < 0 {
			t.Fatal("nobody leads")
		}
		members[i].Close()
		members = slices.Delete(members, i, i+1)
		s.eventually("another leads, and gets what is for nobody", func() bool {
			for _, m := range members {
				if s.leads(m) {
					return int(s.steered.Load()) == m.Slot()
				}
			}
			return false
		})
		var late *Member
		s.eventually("one can join", func() bool {
			m, err := Join(s.config(&late))
			if err == nil {
				m.Close()
			} else if !errors.Is(err, ErrNoMember) {
				t.Fatal(err)
			}
			return err == nil
		})
	}
	members[0].Close()
	if _, err := Join(s.config(new(*Member))); !errors.Is(err, ErrNoMember) {
		t.Errorf("joining nobody: %v", err)
	}
}

// A process that is a member several times has the descriptors of the address once, until the last of its memberships
// ends. Each has a slot, which others can take afterwards.
func TestSeveralInOneProcess(t *testing.T) {
	s := newSite(t)
	first := s.found()
	before := openDescriptors(t)
	second := s.beside(first)
	group := openDescriptors(t) - before
	before = openDescriptors(t)
	third := s.beside(second)
	more := openDescriptors(t) - before
	if more > 10 || group < descriptors {
		t.Errorf("%d descriptors of the second member, %d of the third", group, more)
	}
	if first.Slot() != 0 || second.Slot() != 1 || third.Slot() != 2 {
		t.Errorf("slots %d, %d, %d", first.Slot(), second.Slot(), third.Slot())
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if !third.Forward(0, []byte("to the first")) || first.IsActive(1) {
		t.Error("the first two slots are not as their members left them")
	}
	s.eventually("the message arrives", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.got[first]) == 1
	})
	if again := s.beside(third); again.Slot() != 1 {
		t.Errorf("slot %d, want the one that was free", again.Slot())
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Join(Config{Name: s.name}); err == nil {
		t.Error("a membership that has ended takes part")
	}
	if joined := s.join(); joined.Slot() != 0 {
		t.Errorf("slot %d, want the first", joined.Slot())
	}
}

// openDescriptors returns how many descriptors the process has.
func openDescriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestFull(t *testing.T) {
	s := newSite(t)
	s.found()
	var last *Member
	for range Slots - 1 {
		last = s.join()
	}
	if _, err := Join(s.config(new(*Member))); !errors.Is(err, ErrFull) {
		t.Errorf("one too many: %v", err)
	}
	slot := last.Slot()
	last.Close()
	if m := s.join(); m.Slot() != slot {
		t.Errorf("slot %d, want %d, which is free", m.Slot(), slot)
	}
}

// TestNoise has strangers connect that send nothing, or nonsense.
func TestNoise(t *testing.T) {
	s := newSite(t)
	m := s.found()
	for _, say := range []string{"", "x", "\x02j", "jjjjjjjj", "\x01z"} {
		c, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(c)
		if err := unix.Connect(c, &unix.SockaddrUnix{Name: controlAddr(s.name, m.number).Name}); err != nil {
			t.Fatal(err)
		}
		if say != "" {
			unix.Write(c, []byte(say))
		}
	}
	if m := s.join(); m.Slot() != 1 {
		t.Errorf("slot %d", m.Slot())
	}
}

// silence stands for a member that is stopped: the kernel lets others connect to it,
// and there is no answer.
func (s *site) silence() (number uint64) {
	s.t.Helper()
	control, number, err := listenControl(s.name)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { control.Close() })
	return number
}

// TestSilentDoors has newcomers come by members that answer, beside silent ones.
func TestSilentDoors(t *testing.T) {
	s := newSite(t)
	s.silence()
	s.found()
	s.silence()
	if m := s.join(); m.Slot() != 1 {
		t.Errorf("slot %d", m.Slot())
	}
}

// TestLateAnswer joins a member that runs and takes longer to answer than a stopped one may.
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a := s.found()
	a.mu.Lock()
	time.AfterFunc(handshake+handshake/6, a.mu.Unlock)
	if m := s.join(); m.Slot() != 1 {
		t.Errorf("slot %d", m.Slot())
	}
}

// TestNobodyAnswers has the error for a newcomer name the members that do not answer.
func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.silence()
	c := s.config(new(*Member))
	c.impatient = true
	_, err := Join(c)
	if !errors.Is(err, ErrSilent) || !strings.Contains(err.Error(), fmt.Sprintf("process %d,", os.Getpid())) {
		t.Errorf("joining a process that is stopped: %v", err)
	}
}

// TestSilentLeader has a leader that does not answer a follower: the follower then gets datagrams
// for no process in particular, and the others follow it.
func TestSilentLeader(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a, b := s.found(), s.join()
	if err := a.common.Load().board.setControlNumber(a.slot, s.silence()); err != nil {
		t.Fatal(err)
	}
	members := []*Member{a, b, s.join()}
	leads := func(m *Member) bool { return s.leads(m) && int(s.steered.Load()) == m.slot }
	s.eventually("another leads", func() bool { return slices.ContainsFunc(members[1:], leads) })
	i := slices.IndexFunc(members, leads)
	members[i].Close()
	members = slices.Delete(members, i, i+1)
	s.eventually("one of the others leads", func() bool { return slices.ContainsFunc(members, leads) })
}

// squat takes names of control sockets as another user.
func (s *site) squat(names int) {
	s.t.Helper()
	if os.Getuid() != 0 {
		s.t.Skip("needs root to become somebody else")
	}
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread is another user's from here on
		const nobody = 65534
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
			failed <- errno
			return
		}
		for number := range names {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
			if err == nil {
				s.t.Cleanup(func() { unix.Close(fd) })
				err = unix.Bind(fd, &unix.SockaddrUnix{Name: controlAddr(s.name, uint64(number)).Name})
			}
			if err == nil {
				err = unix.Listen(fd, 1)
			}
			if err != nil {
				failed <- err
				return
			}
		}
		failed <- nil
	}()
	if err := <-failed; err != nil {
		s.t.Fatal(err)
	}
}

// TestSquatters has another user take names like the names of control sockets: newcomers do not ask there, and find
// members all the same.
func TestSquatters(t *testing.T) {
	s := newSite(t)
	s.squat(4 * maxDials)
	if _, err := Join(s.config(new(*Member))); !errors.Is(err, ErrNoMember) {
		t.Errorf("joining another user: %v", err)
	}
	s.found()
	if m := s.join(); m.Slot() != 1 {
		t.Errorf("slot %d", m.Slot())
	}
}
