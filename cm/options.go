// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Option tunes [Dial], [Listen] and [Request.Accept].
type Option func(*options)

// options are the settings of Dial and Listen.
type options struct {
	param     ConnParam
	timeout   time.Duration
	sendDepth int
	recvDepth int
	recvSize  int
	backlog   int
	pd        *verbs.PD
	spin      time.Duration
	ackTime   uint8
	tos       uint8
	setup     func(id *ID, p *ConnParam) error
}

// Defaults of Dial and Listen.
const (
	DefaultTimeout   = 30 * time.Second
	DefaultSendDepth = 64
	DefaultRecvDepth = 16
	DefaultRecvSize  = 4096
)

func newOptions(opts []Option) *options {
	return (&options{param: DefaultConnParam, timeout: DefaultTimeout, sendDepth: DefaultSendDepth,
		recvDepth: DefaultRecvDepth, recvSize: DefaultRecvSize, backlog: DefaultBacklog}).with(opts)
}

// with returns a copy of o, changed by further options.
func (o *options) with(opts []Option) *options {
	c := *o
	for _, f := range opts {
		f(&c)
	}
	return &c
}

// check checks that the device supports the queues that a connection is to get.
func (o *options) check(dev *verbs.Device) error {
	attr := dev.Query()
	switch {
	case o.setup != nil:
	case o.sendDepth < 1 || o.recvDepth < 1 || o.recvSize < 1:
		return opErr("create_qp", verbs.ErrInvalid, "depths of %d and %d, messages of %d bytes: at least 1 each",
			o.sendDepth, o.recvDepth, o.recvSize)
	case o.sendDepth > attr.MaxQPWR || o.recvDepth > attr.MaxQPWR:
		return opErr("create_qp", verbs.ErrInvalid, "depths of %d and %d: %s has at most %d", o.sendDepth, o.recvDepth,
			dev.Name(), attr.MaxQPWR)
	}
	return nil
}

// WithPrivateData sends private data along with the connection: at most MaxConnectData bytes when
// dialing, MaxAcceptData when accepting.
func WithPrivateData(b []byte) Option { return func(o *options) { o.param.PrivateData = b } }

// WithReads sets how many READs and atomics of the peer are answered at once, and how many may be
// in flight to it. Default: Unlimited.
func WithReads(responderResources, initiatorDepth uint8) Option {
	return func(o *options) {
		o.param.ResponderResources, o.param.InitiatorDepth = responderResources, initiatorDepth
	}
}

// WithRetries sets how often packets that are not acknowledged, and messages that find no receive,
// are retransmitted: 0 to 7, where 7 RNR retries stand for unlimited. Default: 7, 7. The peer waits
// 655 ms before each of a limited number of RNR retries. Over iWARP and shared memory nothing is
// retransmitted, and over iWARP a message waits for a receive without limit.
func WithRetries(retry, rnr uint8) Option {
	return func(o *options) { o.param.RetryCount, o.param.RNRRetryCount = retry, rnr }
}

// WithDepth sets how many sends may be in flight, and how many receives are posted: at
// least 1 each. Default: DefaultSendDepth, DefaultRecvDepth.
func WithDepth(send, recv int) Option {
	return func(o *options) { o.sendDepth, o.recvDepth = send, recv }
}

// WithRecvSize sets the longest message that can be received, in bytes. Default:
// DefaultRecvSize.
func WithRecvSize(n int) Option { return func(o *options) { o.recvSize = n } }

// WithPD creates the connection's queue pair in a protection domain of the program. By default all
// connections of the device without this option share one: a key of one of them that becomes known
// to another's peer is valid there too.
func WithPD(pd *verbs.PD) Option { return func(o *options) { o.pd = pd } }

// WithSpin sets how long a goroutine polls before it sleeps until something completes. Default:
// verbs.DefaultSpin; negative: it sleeps at once.
func WithSpin(d time.Duration) Option { return func(o *options) { o.spin = d } }

// WithTimeout limits how long Dial takes, in addition to its context. Default: DefaultTimeout.
func WithTimeout(d time.Duration) Option { return func(o *options) { o.timeout = d } }

// WithAckTimeout sets the acknowledgement timeout, 4.096 µs × 2^t: of both sides when dialing, of
// this side when listening. The default is DefaultAckTimeout when dialing, and the peer's value, at
// most MaxPeerAckTimeout, when listening.
func WithAckTimeout(t uint8) Option { return func(o *options) { o.ackTime = t } }

// WithTOS sets the type of service of the connection's packets.
func WithTOS(tos uint8) Option { return func(o *options) { o.tos = tos } }

// WithBacklog sets how many requests may wait for [Listener.Accept], and, if it is more than 128,
// how many accepted ones may wait for the peer to confirm; see [ID.Listen]. Default:
// DefaultBacklog.
func WithBacklog(n int) Option {
	return func(o *options) {
		if o.backlog = n; n <= 0 {
			o.backlog = DefaultBacklog
		}
	}
}

// WithSetup leaves the queue pair to f. It creates one with [ID.CreateQP], posts receives, and may
// change p, in particular the private data. When accepting, the peer's parameters are in [Request].
// The Conn then has no queues of its own: Send, Recv, Read, Write, Do and Pool do not work, and the
// program uses [Conn.QP]. If f returns an error, the connection is given up and Dial or Accept
// returns the error.
func WithSetup(f func(id *ID, p *ConnParam) error) Option { return func(o *options) { o.setup = f } }
