// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// terminates are the causes of iWARP's Terminate (RFC 5040 section 4.8, RFC 5041 section 8, RFC 5044 section 8).
func terminates() (all []Entry) {
	for _, e := range []struct {
		cause iwarp.Cause
		explained
	}{
		{iwarp.LocalCatastrophic, explained{"TERM_LOCAL", "The side that sent it failed for a reason of its own.", because("Its program ended the connection with work outstanding, or its memory was unmapped.")}},
		{iwarp.ProtectionSTag, explained{"TERM_STAG", "A READ or an atomic names a steering tag that does not exist: the peer's IBV_WC_REM_ACCESS_ERR.", because("The key is stale, or in another byte order.")}},
		{iwarp.ProtectionBounds, explained{"TERM_BOUNDS", "A READ or an atomic goes beyond the memory of its steering tag.", because("A length that is too long by the offset.")}},
		{iwarp.ProtectionAccess, explained{"TERM_ACCESS", "The region or the queue pair does not allow the access.", because("Access flags of the region, or of the queue pair.")}},
		{iwarp.ProtectionStream, explained{"TERM_STREAM", "The steering tag belongs to another protection domain or connection.", because("Region and queue pair were made from two protection domains.")}},
		{iwarp.ProtectionWrap, explained{"TERM_WRAP", "The address and the length together go beyond 2^64.", because("The address was sent in another byte order, or was computed from a negative offset.")}},
		{iwarp.ProtectionInvalidate, explained{"TERM_INVALIDATE", "A SEND with invalidate names a tag that cannot be invalidated.", because("It is bound to another queue pair, or not a window.")}},
		{iwarp.OperationVersion, explained{"TERM_VERSION", "The peer speaks another version of RDMAP.", because("A peer that is no iWARP implementation, or a faulty one: there is only version 1.")}},
		{iwarp.OperationOpcode, explained{"TERM_OPCODE", "A message that was not expected there.", because("The peer sent an operation that this side does not have, such as an atomic (RFC 7306).")}},
		{iwarp.OperationCatastrophic, explained{"TERM_CATASTROPHIC", "The stream failed at the peer.", because("An atomic's address is not a multiple of 8.")}},
		{iwarp.OperationGlobal, explained{"TERM_DEVICE", "The peer's device failed.", because("Its program closed the device, or an adapter was reset: look at the kernel's log there.")}},
		{iwarp.OperationUnspecified, explained{"TERM_UNSPECIFIED", "The peer could not carry out a request.", because("Its own log or ramjet stat qp there says why.")}},
		{iwarp.DDPCatastrophic, explained{"TERM_DDP", "DDP failed at the peer.", because("Its program ended, or its queue pair failed: ramjet stat qp there says why.")}},
		{iwarp.TaggedSTag, explained{"TERM_TAGGED_STAG", "A WRITE names a steering tag that does not exist.", because("The key is stale, or in another byte order.")}},
		{iwarp.TaggedBounds, explained{"TERM_TAGGED_BOUNDS", "A WRITE goes beyond the memory of its steering tag.", because("A length that is too long by the offset.")}},
		{iwarp.TaggedStream, explained{"TERM_TAGGED_STREAM", "A WRITE's steering tag belongs to another protection domain or connection.", because("Region and queue pair were made from two protection domains.")}},
		{iwarp.TaggedWrap, explained{"TERM_TAGGED_WRAP", "The address and the length of a WRITE together go beyond 2^64.", because("The address was sent in another byte order, or was computed from a negative offset.")}},
		{iwarp.TaggedVersion, explained{"TERM_TAGGED_VERSION", "The peer speaks another version of DDP.", because("A peer that is no iWARP implementation, or a faulty one: there is only version 1.")}},
		{iwarp.UntaggedQueue, explained{"TERM_QUEUE", "A message for a queue that does not exist.", because("A faulty peer: DDP has queues 0 to 2, with atomics 3.")}},
		{iwarp.UntaggedNoBuffer, explained{"TERM_NO_BUFFER", "A SEND arrived and no receive is posted. iWARP has no RNR: some implementations end the connection.", because("Receives are posted too late, or too few.")}},
		{iwarp.UntaggedMSN, explained{"TERM_MSN", "A message came out of order, or more READs than were agreed.", because("max_rd_atomic is larger than the peer's max_dest_rd_atomic.")}},
		{iwarp.UntaggedMO, explained{"TERM_MO", "A segment came out of order.", because("A faulty peer: TCP keeps segments in order.")}},
		{iwarp.UntaggedTooLong, explained{"TERM_TOO_LONG", "A SEND is longer than the receive.", because("Both sides have to agree on the largest message.")}},
		{iwarp.UntaggedVersion, explained{"TERM_UNTAGGED_VERSION", "The peer speaks another version of DDP.", because("A peer that is no iWARP implementation, or a faulty one: there is only version 1.")}},
		{iwarp.MPAClosed, explained{"TERM_MPA_CLOSED", "The TCP connection ended.", because("The peer's process ended.")}},
		{iwarp.MPACRC, explained{"TERM_MPA_CRC", "The CRC of an FPDU is wrong.", because("Corruption that TCP's checksum did not see, or memory that changed while it was sent.")}},
		{iwarp.MPAMarker, explained{"TERM_MPA_MARKER", "Markers are not where they should be.", because("Both sides disagree on whether there are markers.")}},
		{iwarp.MPAFrame, explained{"TERM_MPA_FRAME", "The messages that set up MPA are not understood.", because("Something that is not iWARP is at the other end.")}},
		{iwarp.MPALocal, explained{"TERM_MPA_LOCAL", "The set-up failed on the side that sent it.", because("Its program ended, or rejected the connection.")}},
		{iwarp.MPAInsufficientIRD, explained{"TERM_MPA_IRD", "The peer answers fewer READs at once than are wanted.", because("max_rd_atomic is larger than the peer's limit.")}},
		{iwarp.MPANoRTR, explained{"TERM_MPA_RTR", "The sides have no ready-to-receive message in common (RFC 6581).", because("The stacks differ in the first message that they can send: a WRITE, a READ or a SEND of no bytes.")}},
	} {
		all = append(all, Entry{Terminate, e.name, int(e.cause), e.cause.String(), synonyms[e.name], e.means, e.causes})
	}
	return all
}

// rejects are the reasons of REJ (IBTA 12.6.7.2).
func rejects() []Entry {
	path := "The peer does not accept this attribute of the path."
	record := because("The path was put together by hand, or is older than the fabric's last change: ask the subnet manager for the path again.")
	list := []explained{
		mad.RejNoQP:                    {"IB_CM_REJ_NO_QP", "The peer has no queue pair left.", because("A limit of its device.")},
		mad.RejNoEEC:                   {"IB_CM_REJ_NO_EEC", "Of reliable datagrams, which no device has any more.", nil},
		mad.RejNoResources:             {"IB_CM_REJ_NO_RESOURCES", "The peer has no room for another connection.", because("Its listener's backlog is full: the program accepts too slowly.")},
		mad.RejTimeout:                 {"IB_CM_REJ_TIMEOUT", "The connection took too long to set up.", because("A side's program did not accept or confirm in time.", "Datagrams of the connection manager are lost.")},
		mad.RejUnsupportedRequest:      {"IB_CM_REJ_UNSUPPORTED", "The peer's connection manager does not know such requests.", nil},
		mad.RejInvalidCommID:           {"IB_CM_REJ_INVALID_COMM_ID", "The peer knows no such connection.", because("It was restarted, or gave up.")},
		mad.RejInvalidCommInstance:     {"IB_CM_REJ_INVALID_COMM_INSTANCE", "The peer's identifier is of another connection.", nil},
		mad.RejInvalidServiceID:        {"IB_CM_REJ_INVALID_SERVICE_ID", "Nobody listens at the port: what TCP calls connection refused.", because("The server does not run, or listens at another port, port space or address.")},
		mad.RejInvalidTransportType:    {"IB_CM_REJ_INVALID_TRANSPORT_TYPE", "The listener takes queue pairs of another type.", because("RC on one side, UC or XRC on the other.")},
		mad.RejStaleConnection:         {"IB_CM_REJ_STALE_CONN", "The peer still has a connection with this queue pair number, of an earlier process.", because("The program was restarted at once. It passes when the peer has noticed.")},
		mad.RejRDCDoesNotExist:         {"IB_CM_REJ_RDC_NOT_EXIST", "Of reliable datagrams, which no device has any more.", nil},
		mad.RejPrimaryGID:              {"IB_CM_REJ_INVALID_GID", path, because("The address is not the peer's.")},
		mad.RejPrimaryLID:              {"IB_CM_REJ_INVALID_LID", path, because("The LID is not the peer's: the subnet manager changed it.")},
		mad.RejPrimarySL:               {"IB_CM_REJ_INVALID_SL", path, record},
		mad.RejPrimaryTrafficClass:     {"IB_CM_REJ_INVALID_TRAFFIC_CLASS", path, record},
		mad.RejPrimaryHopLimit:         {"IB_CM_REJ_INVALID_HOP_LIMIT", path, record},
		mad.RejPrimaryPacketRate:       {"IB_CM_REJ_INVALID_PACKET_RATE", path, record},
		mad.RejAlternateGID:            {"IB_CM_REJ_INVALID_ALT_GID", path, record},
		mad.RejAlternateLID:            {"IB_CM_REJ_INVALID_ALT_LID", path, record},
		mad.RejAlternateSL:             {"IB_CM_REJ_INVALID_ALT_SL", path, record},
		mad.RejAlternateTrafficClass:   {"IB_CM_REJ_INVALID_ALT_TRAFFIC_CLASS", path, record},
		mad.RejAlternateHopLimit:       {"IB_CM_REJ_INVALID_ALT_HOP_LIMIT", path, record},
		mad.RejAlternatePacketRate:     {"IB_CM_REJ_INVALID_ALT_PACKET_RATE", path, record},
		mad.RejPortCMRedirect:          {"IB_CM_REJ_PORT_CM_REDIRECT", "The peer asks to connect through another port and manager.", nil},
		mad.RejPortRedirect:            {"IB_CM_REJ_PORT_REDIRECT", "The peer asks to connect through another port.", nil},
		mad.RejInvalidPathMTU:          {"IB_CM_REJ_INVALID_MTU", "The path MTU is larger than the peer's port takes.", because("The interfaces have different MTUs.")},
		mad.RejInsufficientResources:   {"IB_CM_REJ_INSUFFICIENT_RESP_RESOURCES", "The peer answers fewer READs and atomics at once than are wanted.", because("initiator_depth is larger than the peer's responder_resources.")},
		mad.RejConsumer:                {"IB_CM_REJ_CONSUMER_DEFINED", "The peer's program rejected the connection. Its private data may say why.", because("rdma_reject, or a listener that was closed with requests pending.")},
		mad.RejRNRRetryCount:           {"IB_CM_REJ_INVALID_RNR_RETRY", "The peer does not accept the RNR retry count.", nil},
		mad.RejDuplicateLocalCommID:    {"IB_CM_REJ_DUPLICATE_LOCAL_COMM_ID", "The identifier is in use for another connection.", nil},
		mad.RejInvalidClassVersion:     {"IB_CM_REJ_INVALID_CLASS_VERSION", "The peer's connection manager speaks another version.", nil},
		mad.RejPrimaryFlowLabel:        {"IB_CM_REJ_INVALID_FLOW_LABEL", path, record},
		mad.RejAlternateFlowLabel:      {"IB_CM_REJ_INVALID_ALT_FLOW_LABEL", path, record},
		mad.RejVendorOptionUnsupported: {"IB_CM_REJ_VENDOR_OPTION_NOT_SUPPORTED", "The peer does not know an option of a vendor.", nil},
	}
	return entries(Reject, list, func(n int) string { return mad.Reason(n).String() })
}
