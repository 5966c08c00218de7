// SPDX-License-Identifier: Apache-2.0

// Package madagent handles the management datagrams of an agent for its program: requests wait for
// their responses, are sent again and time out (IBTA 13.4.6.2), and tables that come in segments are
// put together and acknowledged (RMPP, section 13.6). It is pure: the clock is a parameter of every call.
//
// A response without a request is dropped, as is a segment that is not the next. What a response may hold
// is bounded. A program sends single datagrams only.
package madagent
