// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// func barrier()
TEXT ·barrier(SB), NOSPLIT, $0-0
	DMB	$0xb // ISH
	RET
