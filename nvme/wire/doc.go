// SPDX-License-Identifier: Apache-2.0

// Package wire has the codecs of NVMe over RDMA: submission and completion queue entries, SGL descriptors, the fabrics
// commands, the private data of connections, and the data structures of Identify and Get Log Page that package nvme
// uses.
//
// Sections named "base" are sections of the NVM Express base specification 1.4, "fabrics" sections of NVMe over Fabrics
// 1.1, in which section 7.3 is the RDMA transport. All numbers are little-endian.
package wire
