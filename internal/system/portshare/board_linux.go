// SPDX-License-Identifier: Apache-2.0

package portshare

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// board is the shared state of the processes of an address: a file in memory. Locks on bytes behind
// its contents say which slots are taken, and which process may write. The kernel releases a lock when
// its holder has ended, in any way.
//
//	 0        8        16                   144            168
//	+--------+--------+-- … --+----------+--------------+----
//	| claims | leader | slot 0's control … | claim        | …
//	+--------+--------+-- … --+----------+--------------+----
//
// The first word is the number of claims, the second the slot of the leader. Then come the numbers
// of the members' control sockets. Each process has opened the file itself, because locks belong to an open
// file.
type board struct{ file *os.File }

// claim is a claimed service id.
type claim struct {
	service, mask uint64
	slot          int
}

const (
	leaderAt   = 8
	controlsAt = 16
	claimsAt   = controlsAt + 8*Slots
	claimSize  = 24
	maxClaims  = 1 << 14

	slotLocks  = 1 << 40           // the first slot's
	classLocks = slotLocks + Slots // then, for each management class: its process has an agent for it
	writeLock  = classLocks + 256*Slots

	// lockTimeout limits the wait for other processes, which write for a few microseconds unless
	// they are stopped just then.
	lockTimeout = 3 * time.Second
)

var (
	errClaimed = errors.New("claimed already")
	errFull    = errors.New("no room for more")
)

// newBoard creates an empty board and returns its descriptor.
func newBoard() (int, error) {
	fd, err := unix.MemfdCreate("ramjet-address", unix.MFD_CLOEXEC)
	if err == nil {
		err = unix.Ftruncate(fd, claimsAt)
	}
	return fd, os.NewSyscallError("memfd_create", err)
}

// openBoard reopens the board of a descriptor, for locks of its own.
func openBoard(fd int) (*board, error) {
	f, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &board{f}, nil
}

func (b *board) close() { b.file.Close() }

// lock locks or unlocks a byte, without waiting.
func (b *board) lock(at int64, kind int16) bool {
	l := unix.Flock_t{Type: kind, Start: at, Len: 1}
	return unix.FcntlFlock(b.file.Fd(), unix.F_OFD_SETLK, &l) == nil
}

// takeSlot takes a free slot, for as long as the board is open.
func (b *board) takeSlot() (slot int, err error) {
	for slot := range Slots {
		if b.lock(slotLocks+int64(slot), unix.F_WRLCK) {
			return slot, b.keepClaims(func(c claim) bool { return c.slot != slot })
		}
	}
	return 0, ErrFull
}

// taken reports whether another process has taken a slot.
func (b *board) taken(slot int) bool { return b.locked(slotLocks + int64(slot)) }

// serves records whether the process in a slot has an agent for a management class.
func (b *board) serves(class uint8, slot int, yes bool) {
	kind := int16(unix.F_UNLCK)
	if yes {
		kind = unix.F_WRLCK
	}
	b.lock(classLock(class, slot), kind)
}

// server returns the slot of another process that has an agent for a management class.
func (b *board) server(class uint8) (slot int, ok bool) {
	for slot := range Slots {
		if b.locked(classLock(class, slot)) {
			return slot, true
		}
	}
	return 0, false
}

func classLock(class uint8, slot int) int64 { return classLocks + int64(class)*Slots + int64(slot) }

// locked reports whether another process has locked a byte.
func (b *board) locked(at int64) bool {
	l := unix.Flock_t{Type: unix.F_WRLCK, Start: at, Len: 1}
	return unix.FcntlFlock(b.file.Fd(), unix.F_OFD_GETLK, &l) == nil && l.Type != unix.F_UNLCK
}

// claim adds a claim, unless it overlaps with one of a live process.
func (b *board) claim(c claim) error {
	return b.update(func(claims []claim) ([]claim, error) {
		kept := claims[:0]
		for _, o := range claims {
			if (o.service^c.service)&o.mask&c.mask == 0 {
				if o.slot == c.slot || b.taken(o.slot) {
					return nil, errClaimed
				}
				continue
			}
			kept = append(kept, o)
		}
		if len(kept) == maxClaims {
			return nil, errFull
		}
		return append(kept, c), nil
	})
}

// keepClaims drops the claims for which f returns false.
func (b *board) keepClaims(f func(claim) bool) error {
	return b.update(func(claims []claim) ([]claim, error) {
		kept := claims[:0]
		for _, c := range claims {
			if f(c) {
				kept = append(kept, c)
			}
		}
		return kept, nil
	})
}

// owner returns the slot that has claimed a service id. It takes no lock: a claim that is being
// made or dropped may be missed.
func (b *board) owner(service uint64) (slot int, ok bool) {
	claims, err := b.read()
	if err != nil {
		return 0, false
	}
	for _, c := range claims {
		if (c.service^service)&c.mask == 0 {
			return c.slot, true
		}
	}
	return 0, false
}

// leader returns the slot of the leader.
func (b *board) leader() (slot int, err error) {
	word, err := b.word(leaderAt)
	return int(word % Slots), err
}

// lead makes slot the leader if the leader is was, and calls then while no other process can do the
// same. It returns false if there is another leader already.
func (b *board) lead(slot, was int, then func()) bool {
	led := false
	_ = b.withWriteLock(func() error {
		now, err := b.leader()
		if err != nil || now != was {
			return err
		}
		led = b.setWord(leaderAt, uint64(slot)) == nil
		if led {
			then()
		}
		return nil
	})
	return led
}

// controlNumber returns the number of a slot's control socket.
func (b *board) controlNumber(slot int) (uint64, error) { return b.word(controlsAt + 8*int64(slot)) }

// setControlNumber records the number of a slot's control socket.
func (b *board) setControlNumber(slot int, number uint64) error {
	return b.setWord(controlsAt+8*int64(slot), number)
}

func (b *board) word(at int64) (uint64, error) {
	var w [8]byte
	_, err := b.file.ReadAt(w[:], at)
	return binary.NativeEndian.Uint64(w[:]), err
}

func (b *board) setWord(at int64, word uint64) error {
	_, err := b.file.WriteAt(binary.NativeEndian.AppendUint64(nil, word), at)
	return err
}

// withWriteLock calls f while no other process is in it.
func (b *board) withWriteLock(f func() error) error {
	for until := time.Now().Add(lockTimeout); !b.lock(writeLock, unix.F_WRLCK); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(until) {
			return errors.New("another process of the address was stopped while it changed what all have in common: let it go on or end it")
		}
	}
	defer b.lock(writeLock, unix.F_UNLCK)
	return f()
}

// update changes the claims while no other process does.
func (b *board) update(f func([]claim) ([]claim, error)) error {
	return b.withWriteLock(func() error { return b.change(f) })
}

func (b *board) change(f func([]claim) ([]claim, error)) error {
	claims, err := b.read()
	if err != nil {
		return err
	}
	if claims, err = f(claims); err != nil {
		return err
	}
	return b.write(claims)
}

func (b *board) read() ([]claim, error) {
	count, err := b.word(0)
	if err != nil {
		return nil, err
	}
	n := min(count, maxClaims)
	body := make([]byte, n*claimSize)
	got, _ := b.file.ReadAt(body, claimsAt) // shorter if claims were just dropped
	claims := make([]claim, 0, n+1)
	for body = body[:got]; len(body) >= claimSize; body = body[claimSize:] {
		claims = append(claims, claim{binary.NativeEndian.Uint64(body), binary.NativeEndian.Uint64(body[8:]),
			int(binary.NativeEndian.Uint64(body[16:]) % Slots)})
	}
	return claims, nil
}

func (b *board) write(claims []claim) error {
	var data []byte
	for _, c := range claims {
		data = binary.NativeEndian.AppendUint64(data, c.service)
		data = binary.NativeEndian.AppendUint64(data, c.mask)
		data = binary.NativeEndian.AppendUint64(data, uint64(c.slot))
	}
	if _, err := b.file.WriteAt(data, claimsAt); err != nil {
		return err
	}
	return b.setWord(0, uint64(len(claims)))
}
