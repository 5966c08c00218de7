// SPDX-License-Identifier: Apache-2.0

// Package gateway takes SMB Direct from clients and hands it to an SMB server over TCP, so that a server without RDMA
// has RDMA clients.
//
// Messages pass unchanged, but for READ and WRITE requests with buffer descriptors (MS-SMB2 2.2.19, 2.2.21): to the
// server they are plain ones, and the gateway moves their data by RDMA. That is possible only while messages are
// neither signed nor encrypted. A signed request with descriptors ends the connection, with an error in the log: the
// gateway cannot sign messages that it changes. Inside encrypted messages it sees nothing, and the server gets
// descriptors that it has no use for. Signed and encrypted sessions work if the client does without the RDMA channel,
// as Linux's does.
package gateway
