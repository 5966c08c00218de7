// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Option tunes [Dial], [Listen] and [Request.Accept].
type Option func(*options)

// options is what Options set; zero values stand for the defaults.
type options struct {
	param     ConnParam
	timeout   time.Duration
	sendDepth int
	recvDepth int
	recvSize  int
	backlog   int
	pd        *verbs.PD
	srq       *verbs.SRQ
	spin      time.Duration
	ackTime   uint8
	tos       uint8
	setup     func(id *ID, p *ConnParam) error
}

// WithPrivateData tells the peer something along with the connection: at most
// MaxConnectData bytes when dialing, MaxAcceptData when accepting.
func WithPrivateData(b []byte) Option { return func(o *options) { o.param.PrivateData = b } }

// WithReads says how many READs and atomics of the peer are answered at once, and how many
// may be in flight to it. Default: Unlimited.
func WithReads(responderResources, initiatorDepth uint8) Option {
	return func(o *options) {
		o.param.ResponderResources, o.param.InitiatorDepth = responderResources, initiatorDepth
	}
}

// WithRetries sets how often what is not acknowledged, and what met no receive, is repeated:
// 0 to 7, where 7 receives stand for ever. Default: 7, 7.
func WithRetries(retry, rnr uint8) Option {
	return func(o *options) { o.param.RetryCount, o.param.RNRRetryCount = retry, rnr }
}

// WithDepth sets how many sends may be in flight, and how many receives are posted.
// Default: 64, 16.
func WithDepth(send, recv int) Option {
	return func(o *options) { o.sendDepth, o.recvDepth = send, recv }
}

// WithRecvSize sets the longest message that can be received, in bytes. Default: 4096.
func WithRecvSize(n int) Option { return func(o *options) { o.recvSize = n } }

// WithPD makes the connection in a protection domain of the program. Default: one that all
// connections of the device without this option share.
func WithPD(pd *verbs.PD) Option { return func(o *options) { o.pd = pd } }

// WithSpin sets how long a goroutine polls before it sleeps until something completes.
// Default: verbs.DefaultSpin; negative: it sleeps at once.
func WithSpin(d time.Duration) Option { return func(o *options) { o.spin = d } }

// WithTimeout bounds how long making a connection takes, also if the context does not.
// Default: 30 s for Dial; Accept has none but the context's.
func WithTimeout(d time.Duration) Option { return func(o *options) { o.timeout = d } }

// WithAckTimeout sets the acknowledgement timeout of both sides: 4.096 µs × 2^t. Default:
// 16, which is 0.27 s.
func WithAckTimeout(t uint8) Option { return func(o *options) { o.ackTime = t } }

// WithTOS sets the type of service of the connection's packets.
func WithTOS(tos uint8) Option { return func(o *options) { o.tos = tos } }

// WithBacklog sets how many connections may wait for [Listener.Accept]. Default: 1024.
func WithBacklog(n int) Option { return func(o *options) { o.backlog = n } }

// WithSetup leaves the queue pair to f, which makes one with [ID.CreateQP], posts receives,
// and may change p, in particular the private data. When accepting, what the peer said is
// in [Request]. The Conn has then no queues of its own: Send, Recv, Read, Write and Pool
// are for those without this option, and the program uses [Conn.QP]. If f returns an error,
// the connection is given up (rejected) and Dial or Accept returns it.
func WithSetup(f func(id *ID, p *ConnParam) error) Option { return func(o *options) { o.setup = f } }
