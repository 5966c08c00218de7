// SPDX-License-Identifier: Apache-2.0

package wire

import "fmt"

// Status is how a command ended: the status code type in bits 8 to 10, the status code in bits 0 to 7 (base 4.6.1).
type Status uint16

// Generic status, of any command.
const (
	Success                 Status = 0x000
	InvalidOpcode           Status = 0x001
	InvalidField            Status = 0x002
	CommandIDConflict       Status = 0x003
	DataTransferError       Status = 0x004
	InternalError           Status = 0x006
	AbortRequested          Status = 0x007
	AbortedSQDeletion       Status = 0x008
	InvalidNamespace        Status = 0x00b
	CommandSequenceError    Status = 0x00c
	SGLLengthInvalid        Status = 0x00f
	SGLTypeInvalid          Status = 0x011
	SGLOffsetInvalid        Status = 0x016
	HostIDInconsistent      Status = 0x018
	KeepAliveExpired        Status = 0x019
	KeepAliveInvalid        Status = 0x01a
	NamespaceWriteProtected Status = 0x020
	LBAOutOfRange           Status = 0x080
	CapacityExceeded        Status = 0x081
	NamespaceNotReady       Status = 0x082
)

// Status of particular commands, fabrics commands among them.
const (
	AbortLimitExceeded             Status = 0x103
	AsyncEventLimitExceeded        Status = 0x105
	InvalidLogPage                 Status = 0x109
	FeatureNotSaveable             Status = 0x10d
	FeatureNotChangeable           Status = 0x10e
	ConnectIncompatibleFormat      Status = 0x180
	ConnectControllerBusy          Status = 0x181
	ConnectInvalidParameters       Status = 0x182
	ConnectRestartDiscovery        Status = 0x183
	ConnectInvalidHost             Status = 0x184
	DiscoveryRestart               Status = 0x190
	AuthenticationRequired         Status = 0x191
	WriteFault                     Status = 0x280
	UnrecoveredReadError           Status = 0x281
	CompareFailure                 Status = 0x285
	AccessDenied                   Status = 0x286
	InternalPathError              Status = 0x300
	AsymmetricAccessPersistentLoss Status = 0x301
	AsymmetricAccessInaccessible   Status = 0x302
	AsymmetricAccessTransition     Status = 0x303
)

var statusNames = map[Status]string{
	Success: "success", InvalidOpcode: "invalid command opcode", InvalidField: "invalid field in command",
	CommandIDConflict: "command ID conflict", DataTransferError: "data transfer error", InternalError: "internal error",
	AbortRequested: "command abort requested", AbortedSQDeletion: "command aborted due to SQ deletion",
	InvalidNamespace: "invalid namespace or format", CommandSequenceError: "command sequence error",
	SGLLengthInvalid: "data SGL length invalid", SGLTypeInvalid: "SGL descriptor type invalid",
	SGLOffsetInvalid: "SGL offset invalid", HostIDInconsistent: "host identifier inconsistent format",
	KeepAliveExpired: "keep alive timer expired", KeepAliveInvalid: "keep alive timeout invalid",
	NamespaceWriteProtected: "namespace is write protected", LBAOutOfRange: "LBA out of range",
	CapacityExceeded: "capacity exceeded", NamespaceNotReady: "namespace not ready",
	AbortLimitExceeded:      "abort command limit exceeded",
	AsyncEventLimitExceeded: "asynchronous event request limit exceeded",
	InvalidLogPage:          "invalid log page", FeatureNotSaveable: "feature identifier not saveable",
	FeatureNotChangeable: "feature not changeable", ConnectIncompatibleFormat: "incompatible format",
	ConnectControllerBusy: "controller busy", ConnectInvalidParameters: "invalid parameters",
	ConnectRestartDiscovery: "restart discovery", ConnectInvalidHost: "invalid host",
	DiscoveryRestart: "discover restart", AuthenticationRequired: "authentication required", WriteFault: "write fault",
	UnrecoveredReadError: "unrecovered read error", CompareFailure: "compare failure", AccessDenied: "access denied",
	InternalPathError: "internal path error", AsymmetricAccessInaccessible: "asymmetric access inaccessible",
	AsymmetricAccessPersistentLoss: "asymmetric access persistent loss",
	AsymmetricAccessTransition:     "asymmetric access transition",
}

// String returns the status in the words of the specification.
func (s Status) String() string {
	if n, ok := statusNames[s]; ok {
		return n
	}
	return fmt.Sprintf("status type %d, code 0x%02x", uint16(s)>>8, uint8(s))
}

// Error makes a Status that is not Success an error, for errors.Is.
func (s Status) Error() string { return "nvme: " + s.String() }
