// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

// rules are the ids of the checker's rules, in the order of the table.
var rules = []string{
	"send-modified", "receive-touched", "read-touched", "memory-freed", "region-in-use", "key-in-use",
	"race", "announced-early", "partial-poll", "queue-pair-order",
	"send-queue-unsignaled", "cq-overflow", "rnr-unlimited", "inline-limit", "rd-atomic-depth",
	"ud-grh-room", "ud-grh-read", "atomic-alignment", "foreign-pd",
	"event-unacknowledged", "channel-unarmed", "use-after-destroy", "double-destroy", "concurrent-use",
	"leak", "events-left", "completion-error-unread",
}

// alike are rules that name the same mistake from two sides: a finding of either is right for a program of the other.
var alike = map[string]string{
	"announced-early":      "queue-pair-order",
	"queue-pair-order":     "announced-early",
	"event-unacknowledged": "events-left",
	"events-left":          "event-unacknowledged",
}

// oneLanguage are the rules that programs of one language alone can break, with the reason.
var oneLanguage = map[string]string{
	"event-unacknowledged": "C: Go's events need no acknowledgement",
	"double-destroy":       "C: in Go a second Close is an error and does no harm",
	"concurrent-use":       "C: objects of package verbs may be closed while they are used",
}

// knownMisses are mistakes that the checker does not see, by the name of their program, with the reason.
var knownMisses = map[string]string{
	"go/completion-error-unread-flushed": "receives that are flushed: each connection that ends leaves some",
	"c/announced-early-unrelated":        "only a load of the program differs from the right one",
	"c/partial-poll-first":               "a C program's loads are not seen",
	"c/queue-pair-order-counter":         "a C program's loads are not seen",
	"c/queue-pair-order-flag":            "a C program's loads are not seen",
	"c/queue-pair-order-processes":       "a C program's loads are not seen",
	"c/race-threads":                     "both write what is there already",
	"go/use-after-destroy-conn":          "a Go program may use what it has closed, and gets an error",
	"go/events-left-disconnected":        "a Go program that ends runs nothing of the checker's",
}

// meet are the rules that find two accesses if these meet: a program of theirs has several tries.
var meet = map[string]bool{"race": true, "queue-pair-order": true, "partial-poll": true, "concurrent-use": true}

// tries is how often such a program runs until its mistake is found.
const tries = 5

// crashes are the rules whose mistakes use memory that is gone, and so may end a program by a signal.
var crashes = map[string]bool{"use-after-destroy": true, "double-destroy": true, "concurrent-use": true}
