// SPDX-License-Identifier: Apache-2.0

// Package pods has a test of the whole: ramjet-kubelet, a kubelet's protocol, and containers of runc with network
// namespaces of their own, in which unmodified C programs talk to each other.
package pods
