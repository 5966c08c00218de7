// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package environ

func secure() bool { return false }
