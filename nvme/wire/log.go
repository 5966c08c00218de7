// SPDX-License-Identifier: Apache-2.0

package wire

// LogID is a log page (base 5.14).
type LogID uint8

// Log pages.
const (
	LogErrors    LogID = 0x01
	LogHealth    LogID = 0x02
	LogFirmware  LogID = 0x03
	LogChanged   LogID = 0x04 // namespaces that have changed
	LogANA       LogID = 0x0c // asymmetric namespace access
	LogDiscovery LogID = 0x70
)

// Sizes of log pages in bytes.
const (
	LogHealthSize      = 512
	LogFirmwareSize    = 512
	LogChangedSize     = 4096
	ErrorEntrySize     = 64
	DiscoveryEntrySize = 1024
	DiscoveryHeadSize  = 1024
)

// SetLogPage makes c a Get Log Page of n bytes, a multiple of 4, from an offset on.
func (c *Command) SetLogPage(id LogID, off uint64, n int) {
	d := uint32(n/4 - 1)
	c.Opcode = AdminGetLogPage
	c.CDW10, c.CDW11 = uint32(id)|d<<16, d>>16
	c.CDW12, c.CDW13 = uint32(off), uint32(off>>32)
}

// LogPage returns the request that SetLogPage has set. RetainEvent: the page's event is not cleared.
func (c *Command) LogPage() (id LogID, off, n uint64, retainEvent bool) {
	d := uint64(c.CDW11&0xffff)<<16 | uint64(c.CDW10>>16)
	return LogID(c.CDW10), uint64(c.CDW13)<<32 | uint64(c.CDW12), (d + 1) * 4, c.CDW10>>15&1 != 0
}

// ErrorEntry is an entry of the error log (base 5.14.1.1).
type ErrorEntry struct {
	Count    uint64
	SQID     uint16
	CID      uint16
	Status   Status
	LBA      uint64
	NSID     uint32
	Location uint16 // of the parameter in error; 0xffff: not known
}

// Append appends the entry's 64 bytes.
func (e *ErrorEntry) Append(b []byte) []byte {
	at := len(b)
	b = append(b, make([]byte, ErrorEntrySize)...)
	d := b[at:]
	le.PutUint64(d, e.Count)
	for i, v := range [...]uint16{e.SQID, e.CID, uint16(e.Status) << 1, e.Location} {
		le.PutUint16(d[8+2*i:], v)
	}
	le.PutUint64(d[16:], e.LBA)
	le.PutUint32(d[24:], e.NSID)
	return b
}

// Health is the SMART log, of which a soft target has counters only (base 5.14.1.2).
type Health struct {
	Reads, Writes         uint64 // commands
	BytesRead, BytesWrote uint64
	MediaErrors           uint64
	ErrorEntries          uint64
}

// dataUnit is the unit of data in the log: a thousand blocks of 512 bytes.
const dataUnit = 512000

// Append appends the log's 512 bytes.
func (h *Health) Append(b []byte) []byte {
	at := len(b)
	b = append(b, make([]byte, LogHealthSize)...)
	d := b[at:]
	le.PutUint16(d[1:], 273+25) // kelvin: there is nothing to measure
	d[3], d[4] = 100, 10        // spare, and its threshold, in percent
	le.PutUint64(d[32:], (h.BytesRead+dataUnit-1)/dataUnit)
	le.PutUint64(d[48:], (h.BytesWrote+dataUnit-1)/dataUnit)
	le.PutUint64(d[64:], h.Reads)
	le.PutUint64(d[80:], h.Writes)
	le.PutUint64(d[160:], h.MediaErrors)
	le.PutUint64(d[176:], h.ErrorEntries)
	return b
}

// AppendFirmware appends the 512 bytes of the firmware log of a controller whose only slot has a revision, of at most
// 8 bytes (base 5.14.1.3).
func AppendFirmware(b []byte, revision string) []byte {
	at := len(b)
	b = append(b, make([]byte, LogFirmwareSize)...)
	b[at] = 1 // the slot that is active
	putText(b[at+8:at+16], revision)
	return b
}

// DiscoveryHead is the head of the discovery log (fabrics 5.3).
type DiscoveryHead struct {
	Generation uint64
	Records    uint64
	Format     uint16 // 0
}

// Append appends the head's 1024 bytes.
func (h *DiscoveryHead) Append(b []byte) []byte {
	b = le.AppendUint64(le.AppendUint64(b, h.Generation), h.Records)
	b = le.AppendUint16(b, h.Format)
	return append(b, make([]byte, DiscoveryHeadSize-18)...)
}

// Decode decodes the head; false: there are too few bytes.
func (h *DiscoveryHead) Decode(b []byte) bool {
	if len(b) < DiscoveryHeadSize {
		return false
	}
	*h = DiscoveryHead{le.Uint64(b), le.Uint64(b[8:]), le.Uint16(b[16:])}
	return true
}

// Values of fields of a DiscoveryEntry.
const (
	TransportRDMA = 1
	FamilyIPv4    = 1
	FamilyIPv6    = 2

	EntryReferral  = 1 // another discovery service
	EntrySubsystem = 2 // a subsystem with namespaces
	EntryCurrent   = 3 // this discovery service

	NoSecureChannel = 2

	ServiceRC     = 1
	ProviderNone  = 1
	ProviderIB    = 2
	ProviderRoCE  = 3
	ProviderRoCE2 = 4
	ProviderIWARP = 5
	ConnectRDMACM = 1
)

// DiscoveryEntry is an entry of the discovery log (fabrics 5.3, and 7.3 for the fields of RDMA).
type DiscoveryEntry struct {
	Transport  uint8 // TRTYPE
	Family     uint8 // ADRFAM
	Type       uint8 // SUBTYPE
	Secure     uint8 // TREQ
	Port       uint16
	Controller uint16
	AdminSize  uint16 // ASQSZ: the most entries of the admin queue
	Service    string // TRSVCID: the port's number, at most 32 bytes
	SubNQN     string
	Address    string // TRADDR, at most 256 bytes
	QPType     uint8
	Provider   uint8
	CM         uint8
}

// Append appends the entry's 1024 bytes.
func (e *DiscoveryEntry) Append(b []byte) []byte {
	at := len(b)
	b = append(b, make([]byte, DiscoveryEntrySize)...)
	d := b[at:]
	d[0], d[1], d[2], d[3] = e.Transport, e.Family, e.Type, e.Secure
	for i, v := range [...]uint16{e.Port, e.Controller, e.AdminSize} {
		le.PutUint16(d[4+2*i:], v)
	}
	putText(d[32:64], e.Service)
	copy(d[256:256+MaxNQN], e.SubNQN)
	putText(d[512:768], e.Address)
	d[768], d[769], d[770] = e.QPType, e.Provider, e.CM
	return b
}

// Decode decodes an entry; false: there are fewer than 1024 bytes, or the NQN is none.
func (e *DiscoveryEntry) Decode(d []byte) bool {
	if len(d) < DiscoveryEntrySize {
		return false
	}
	nqn, ok := decodeNQN(d[256:512])
	*e = DiscoveryEntry{Transport: d[0], Family: d[1], Type: d[2], Secure: d[3], Port: le.Uint16(d[4:]),
		Controller: le.Uint16(d[6:]),
		AdminSize:  le.Uint16(d[8:]), Service: text(d[32:64]), SubNQN: nqn, Address: text(d[512:768]),
		QPType: d[768], Provider: d[769], CM: d[770]}
	return ok
}

// Feature is the number of a feature (base 5.21).
type Feature uint8

// Features.
const (
	FeatureArbitration   Feature = 0x01
	FeaturePower         Feature = 0x02
	FeatureTemperature   Feature = 0x04
	FeatureErrorRecovery Feature = 0x05
	FeatureWriteCache    Feature = 0x06
	FeatureQueues        Feature = 0x07
	FeatureAtomicity     Feature = 0x0a // of writes
	FeatureAsyncEvents   Feature = 0x0b
	FeatureKeepAlive     Feature = 0x0f // milliseconds
	FeatureHostID        Feature = 0x81
)

// RangeSize is the length of a range of Dataset Management in bytes, of which a command has at most MaxRanges.
const (
	RangeSize = 16
	MaxRanges = 256
)

// Range is a range of blocks in Dataset Management (base 6.7).
type Range struct {
	Blocks uint32
	Start  uint64
}

// Append appends the range's 16 bytes.
func (r *Range) Append(b []byte) []byte {
	return le.AppendUint64(le.AppendUint32(le.AppendUint32(b, 0), r.Blocks), r.Start)
}

// Decode decodes a range; false: there are fewer than 16 bytes.
func (r *Range) Decode(b []byte) bool {
	if len(b) < RangeSize {
		return false
	}
	*r = Range{le.Uint32(b[4:]), le.Uint64(b[8:])}
	return true
}

// Asynchronous events, as the results of their requests: type, information and log page (base 5.2).
const (
	EventNamespaceChanged = 2 | 0x00<<8 | uint64(LogChanged)<<16
	EventANAChanged       = 2 | 0x03<<8 | uint64(LogANA)<<16
	EventDiscoveryChanged = 2 | 0xf0<<8 | uint64(LogDiscovery)<<16
)
