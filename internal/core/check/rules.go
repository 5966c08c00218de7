// SPDX-License-Identifier: Apache-2.0

package check

// Rule is the name of a rule, as reports and options have it.
type Rule string

// The rules.
const (
	SendModified          Rule = "send-modified"
	ReceiveTouched        Rule = "receive-touched"
	ReadTouched           Rule = "read-touched"
	MemoryFreed           Rule = "memory-freed"
	RegionInUse           Rule = "region-in-use"
	KeyInUse              Rule = "key-in-use"
	Race                  Rule = "race"
	AnnouncedEarly        Rule = "announced-early"
	PartialPoll           Rule = "partial-poll"
	QueuePairOrder        Rule = "queue-pair-order"
	SendQueueUnsignaled   Rule = "send-queue-unsignaled"
	CQOverflow            Rule = "cq-overflow"
	RNRUnlimited          Rule = "rnr-unlimited"
	InlineLimit           Rule = "inline-limit"
	RdAtomicDepth         Rule = "rd-atomic-depth"
	UDGRHRoom             Rule = "ud-grh-room"
	UDGRHRead             Rule = "ud-grh-read"
	AtomicAlignment       Rule = "atomic-alignment"
	ForeignPD             Rule = "foreign-pd"
	EventUnacknowledged   Rule = "event-unacknowledged"
	ChannelUnarmed        Rule = "channel-unarmed"
	UseAfterDestroy       Rule = "use-after-destroy"
	DoubleDestroy         Rule = "double-destroy"
	ConcurrentUse         Rule = "concurrent-use"
	Leak                  Rule = "leak"
	EventsLeft            Rule = "events-left"
	CompletionErrorUnread Rule = "completion-error-unread"
)

// ruleText is a row of the table: the sentence of a rule's reports, and the advice below it.
type ruleText struct {
	rule   Rule
	what   string
	advice string
}

var rules = []ruleText{
	{SendModified, "memory of a posted send changed before its completion was polled",
		"leave the memory alone until the completion has been polled, or send inline data, which is copied"},
	{ReceiveTouched, "memory of a posted receive was used before its completion was polled",
		"leave the memory of a receive alone from posting it until its completion has been polled"},
	{ReadTouched, "the target of a READ or atomic was used before its completion was polled",
		"wait for the completion before the target is read, written or posted again"},
	{MemoryFreed, "memory was freed while it was registered",
		"deregister the region first, when nothing is posted on it and no peer uses its key any more"},
	{RegionInUse, "a region was deregistered while posted work requests named it",
		"poll their completions first, or move the queue pair to ERR and poll until all are flushed"},
	{KeyInUse, "a peer used a key that had ended",
		"tell the peer to stop, and wait for its answer, before the region is deregistered"},
	{Race, "accesses to the same memory had no order between them",
		"wait for the completion of the first, and tell the other side, before the second begins"},
	{AnnouncedEarly, "data was announced before the operation that brings it had finished",
		"wait for its completion, or post the announcement on the same queue pair, behind a READ with a fence"},
	{PartialPoll, "a WRITE was noticed by a byte that is not its last",
		"look at the last byte only, or use a WRITE with immediate, or a SEND behind it"},
	{QueuePairOrder, "data was announced on another queue pair before its WRITE had completed",
		"poll the completion of the WRITE first, or announce it on the same queue pair: only there is it behind the data"},
	{SendQueueUnsignaled, "the send queue is full of work requests whose completions nobody can poll",
		"signal at least one work request in each queue length, and poll its completion"},
	{CQOverflow, "the completion queue can overflow",
		"make it as long as all the work requests together that may be outstanding on its queues"},
	{RNRUnlimited, "receives ran out, and the sender tries again without a limit",
		"post receives before the peer may send, count them in the protocol, or set rnr_retry below 7"},
	{InlineLimit, "inline data is longer than the queue pair takes",
		"ask for max_inline_data when the queue pair is created, and use what it returned"},
	{RdAtomicDepth, "more READs and atomics may be outstanding than the peer takes",
		"set max_rd_atomic to at most the peer's max_dest_rd_atomic"},
	{UDGRHRoom, "a receive of a UD queue pair has no room for the 40 bytes of the GRH",
		"make the buffer 40 bytes longer than the longest message"},
	{UDGRHRead, "the GRH of a datagram was sent on as data",
		"begin 40 bytes behind the start of the receive: byte_len counts them, too"},
	{AtomicAlignment, "the memory of an atomic operation is not 8 bytes at a multiple of 8",
		"align the remote address, and give it 8 bytes for the result"},
	{ForeignPD, "a key or address handle belongs to another protection domain than the queue pair",
		"create both in one protection domain"},
	{EventUnacknowledged, "events of an object were not acknowledged before it was destroyed",
		"acknowledge each event: otherwise the call that destroys the object never returns"},
	{ChannelUnarmed, "a completion channel was waited on, and no event may come",
		"request a notification, then poll until the queue is empty, and only then wait"},
	{UseAfterDestroy, "an object was used after it was destroyed",
		"destroy it when nobody can use it any more"},
	{DoubleDestroy, "an object was destroyed twice",
		"keep one owner for each object"},
	{ConcurrentUse, "two threads used an object at once that allows only one",
		"put a lock around the calls, or give each thread an object of its own"},
	{Leak, "objects were left when the program ended",
		"destroy them, in the opposite order of their creation"},
	{EventsLeft, "events were left when the program ended",
		"read and acknowledge them"},
	{CompletionErrorUnread, "a work request failed, and nobody polled its completion",
		"poll the completion queue until it is empty before it is destroyed"},
}

func find(r Rule) *ruleText {
	for i := range rules {
		if rules[i].rule == r {
			return &rules[i]
		}
	}
	return nil
}

func ruleNames() (names []string) {
	for _, r := range rules {
		names = append(names, string(r.rule))
	}
	return names
}
