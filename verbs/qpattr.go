// SPDX-License-Identifier: Apache-2.0

package verbs

// QPState is the state of a queue pair (IBTA 10.3.1).
type QPState uint8

const (
	StateReset QPState = iota // as created: nothing can be posted
	StateInit                 // receives can be posted
	StateRTR                  // ready to receive
	StateRTS                  // ready to send
	StateSQD                  // send queue drains or is drained
	StateSQE                  // send queue error (UC, UD, XRC target has none)
	StateError                // everything is flushed
)

// String returns the name in the specification, such as RTS.
func (s QPState) String() string {
	return name([]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}, s)
}

// QPAttr are the attributes that Modify sets and Query returns (IBTA 11.2.5.2).
type QPAttr struct {
	State           QPState
	CurState        QPState // the state that the caller believes it is in
	SQDAsyncNotify  bool    // raise EventSQDrained
	Access          Access  // the peers' rights: RemoteWrite, RemoteRead, RemoteAtomic
	PKeyIndex       uint16
	Port            int
	QKey            QKey
	AH              AHAttr
	PathMTU         MTU
	Timeout         uint8 // local acknowledgement timeout: 4.096 µs × 2^Timeout, 0: none (IBTA 9.9.2.1.1)
	RetryCount      uint8 // 0 to 7
	RNRRetry        uint8 // 0 to 6; 7: forever
	RQPSN           PSN   // first packet expected
	SQPSN           PSN   // first packet sent
	MaxRdAtomic     uint8 // READs and atomics in flight
	MaxDestRdAtomic uint8 // READs and atomics answered at once
	MinRNRTimer     uint8 // code of the RNR timer table (IBTA 9.7.5.2.8)
	DestQPN         QPN
	AltAH           AHAttr // alternate paths are not supported by software devices
	MigState        uint8
	Cap             QPCap
	RateLimit       uint32 // not supported by software devices
}

// QPMask names attributes of [QPAttr]: MaskState its State, and so on.
type QPMask uint32

const (
	MaskState QPMask = 1 << iota
	MaskCurState
	MaskSQDAsyncNotify
	MaskAccess
	MaskPKeyIndex
	MaskPort
	MaskQKey
	MaskAH
	MaskPathMTU
	MaskTimeout
	MaskRetryCount
	MaskRNRRetry
	MaskRQPSN
	MaskMaxRdAtomic
	MaskAltPath
	MaskMinRNRTimer
	MaskSQPSN
	MaskMaxDestRdAtomic
	MaskMigState
	MaskCap
	MaskDestQPN
	MaskRateLimit
)

// String lists the attributes' names.
func (m QPMask) String() string {
	return flagNames(uint32(m), "State", "CurState", "SQDAsyncNotify", "Access", "PKeyIndex", "Port", "QKey", "AH",
		"PathMTU", "Timeout", "RetryCount", "RNRRetry", "RQPSN", "MaxRdAtomic", "AltPath", "MinRNRTimer", "SQPSN",
		"MaxDestRdAtomic", "MigState", "Cap", "DestQPN", "RateLimit")
}
