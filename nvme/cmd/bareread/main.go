// SPDX-License-Identifier: Apache-2.0

// Command bareread moves the messages of a read by NVMe over RDMA, and does nothing else: a SEND of 64 bytes, a WRITE
// of the data, a SEND of 16 bytes. Its rate is a bound for reads of a disk on the same device.
//
//	bareread DEVICE ADDRESS                      a target, such as bareread roce:192.0.2.7 :4420
//	bareread DEVICE ADDRESS BYTES DEPTH TIME     a host; prints reads a second
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/nvme/wire"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const (
	maxDepth = 256
	maxSends = 3 * maxDepth // work requests
	maxBytes = 1 << 20

	commandStride  = wire.CommandSize
	responseStride = 64
)

func main() {
	var err error
	switch len(os.Args) {
	case 3:
		err = serve(os.Args[1], os.Args[2])
	case 6:
		err = measure(os.Args[1], os.Args[2], os.Args[3:])
	default:
		fmt.Fprintln(os.Stderr, "usage: bareread DEVICE ADDRESS [BYTES DEPTH TIME]")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bareread:", err)
		os.Exit(1)
	}
}

// side is a queue pair and its memory: messages that come, messages that go, and data.
type side struct {
	pd            *verbs.PD
	cq            *verbs.CQ
	qp            *verbs.QP
	in, out, data *verbs.MR
	recvs         []verbs.RecvWR
	sends         []verbs.SendWR
	again         []verbs.RecvWR
}

// setUp returns a function for cm.WithSetup, with receives of n bytes.
func (s *side) setUp(dev *verbs.Device, n, bytes int, access verbs.Access) func(*cm.ID, *cm.ConnParam) error {
	return func(id *cm.ID, p *cm.ConnParam) (err error) {
		if s.pd, err = dev.AllocPD(); err != nil {
			return err
		}
		if s.in, err = s.pd.AllocMR(maxDepth*n, verbs.LocalWrite); err != nil {
			return err
		}
		if s.out, err = s.pd.AllocMR(maxDepth*commandStride, verbs.LocalWrite); err != nil {
			return err
		}
		if s.data, err = s.pd.AllocMR(bytes, access); err != nil {
			return err
		}
		if s.cq, err = dev.CreateCQ(4*maxDepth, &verbs.CQOptions{NoTimestamps: true}); err != nil {
			return err
		}
		s.qp, err = id.CreateQP(s.pd, verbs.QPInit{Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.cq,
			Cap: verbs.QPCap{MaxSendWR: maxSends, MaxRecvWR: maxDepth, MaxSendSGE: 1, MaxRecvSGE: 1}})
		if err != nil {
			return err
		}
		for i := range maxDepth {
			s.recvs = append(s.recvs, verbs.RecvWR{ID: uint64(i) + 1, SGL: []verbs.SGE{s.in.SGE(i*n, n)}})
		}
		_, err = s.qp.PostRecvList(s.recvs)
		p.RetryCount, p.RNRRetryCount = 7, 7
		return err
	}
}

// post posts the work requests that have gathered.
func (s *side) post() error {
	if _, err := s.qp.PostRecvList(s.again); err != nil {
		return err
	}
	err := s.qp.PostSendAll(s.sends)
	s.again, s.sends = s.again[:0], s.sends[:0]
	return err
}

func serve(device, address string) error {
	dev, err := ramjet.Open(device)
	if err != nil {
		return err
	}
	defer dev.Close()
	l, err := cm.Listen(context.Background(), dev, address)
	if err != nil {
		return err
	}
	fmt.Println("listening on", l.Addr())
	for {
		r, err := l.Next(context.Background())
		if err != nil {
			return err
		}
		var s side
		conn, err := r.Accept(context.Background(),
			cm.WithSetup(s.setUp(dev, wire.CommandSize, maxBytes, verbs.LocalWrite)))
		if err == nil {
			err = s.answer(conn)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bareread: a connection has ended:", err)
		}
	}
}

// answer answers commands until the connection ends.
func (s *side) answer(conn *cm.Conn) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { <-conn.Done(); cancel() }()
	defer conn.Close()
	var due []int                                                        // slots of commands that have no response
	wcs, responses, sent := make([]verbs.WC, 64), []verbs.SendWR(nil), 0 // sent: responses that have not completed
	for {
		n, err := s.cq.Wait(ctx, wcs)
		if err != nil {
			return err
		}
		for i := range wcs[:n] {
			wc := &wcs[i]
			switch {
			case wc.Status != verbs.StatusSuccess:
				return wc.Err()
			case wc.ID == 0:
				sent--
			default:
				due = append(due, int(wc.ID)-1)
			}
		}
		n = min(len(due), maxDepth-sent) // the next command may come long before the acknowledgement
		responses = responses[:0]
		for _, slot := range due[:n] {
			response, err := s.response(slot)
			if err != nil {
				return err
			}
			responses = append(responses, response)
		}
		due, sent = due[:copy(due, due[n:])], sent+n
		s.sends = append(s.sends, responses...)
		if err := s.post(); err != nil {
			return err
		}
	}
}

// response adds the WRITE of a slot's command to the next work requests, and returns the SEND to follow.
func (s *side) response(slot int) (verbs.SendWR, error) {
	s.again = append(s.again, s.recvs[slot])
	var cmd wire.Command
	if !cmd.Decode(s.in.Bytes()[slot*commandStride:]) {
		return verbs.SendWR{}, fmt.Errorf("no command: %x", s.in.Bytes()[slot*commandStride:][:commandStride])
	}
	addr, bytes, key := cmd.SGL.Keyed()
	if bytes > maxBytes {
		return verbs.SendWR{}, fmt.Errorf("a read of %d bytes: at most %d", bytes, maxBytes)
	}
	binary.LittleEndian.PutUint16(s.out.Bytes()[slot*commandStride:], cmd.CID)
	s.sends = append(s.sends, verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{s.data.SGE(0, bytes)},
		Remote: verbs.Remote{Addr: addr, Key: verbs.Key(key)}})
	return verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled,
		SGL: []verbs.SGE{s.out.SGE(slot*commandStride, wire.CompletionSize)}}, nil
}

func measure(device, address string, args []string) error {
	bytes, err1 := strconv.Atoi(args[0])
	depth, err2 := strconv.Atoi(args[1])
	period, err3 := time.ParseDuration(args[2])
	if err1 != nil || err2 != nil || err3 != nil || bytes < 1 || bytes > maxBytes || depth < 1 || depth > maxDepth/2 {
		return fmt.Errorf("%v: write bytes up to %d, a depth up to %d, and a time such as 1s", args, maxBytes,
			maxDepth/2)
	}
	ctx := context.Background()
	dev, err := ramjet.Open(device)
	if err != nil {
		return err
	}
	defer dev.Close()
	var s side
	conn, err := cm.Dial(ctx, dev, address,
		cm.WithSetup(s.setUp(dev, responseStride, depth*bytes, verbs.LocalWrite|verbs.RemoteWrite)))
	if err != nil {
		return err
	}
	defer conn.Close()
	var due []int // slots whose commands are to be sent
	for slot := range depth {
		due = append(due, slot)
	}
	wcs, reads, sent, start := make([]verbs.WC, 64), 0, 0, time.Now() // sent: SENDs that have not completed
	for time.Since(start) < period {
		n := min(len(due), maxSends-sent) // a response may come long before its command's acknowledgement
		for _, slot := range due[:n] {
			s.command(slot, bytes)
		}
		due, sent = due[:copy(due, due[n:])], sent+n
		if err := s.post(); err != nil {
			return err
		}
		n, err := s.cq.Wait(ctx, wcs)
		if err != nil {
			return err
		}
		for i := range wcs[:n] {
			wc := &wcs[i]
			if wc.Status != verbs.StatusSuccess {
				return wc.Err()
			}
			if wc.ID == 0 {
				sent--
				continue
			}
			reads++
			slot := int(wc.ID) - 1
			s.again = append(s.again, s.recvs[slot])
			due = append(due, int(binary.LittleEndian.Uint16(s.in.Bytes()[slot*responseStride:])))
		}
	}
	fmt.Printf("%.0f\n", float64(reads)/time.Since(start).Seconds())
	return nil
}

// command adds the command of a slot to the next work requests.
func (s *side) command(slot, bytes int) {
	to := s.data.Remote()
	cmd := wire.Command{Opcode: wire.Read, CID: uint16(slot),
		SGL: wire.Keyed(wire.SGLKeyed, to.Addr+uint64(slot*bytes), bytes, uint32(to.Key))}
	cmd.Append(s.out.Bytes()[slot*commandStride:][:0])
	s.sends = append(s.sends, verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled,
		SGL: []verbs.SGE{s.out.SGE(slot*commandStride, wire.CommandSize)}})
}
