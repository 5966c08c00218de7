// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"

// func aesDigest(b []byte) uint64
TEXT ·aesDigest(SB), NOSPLIT, $0-32
	MOVQ b_base+0(FP), SI
	MOVQ b_len+8(FP), CX
	PXOR X0, X0
	PXOR X1, X1
	PXOR X2, X2
	PXOR X3, X3
	PXOR X4, X4
	PXOR X5, X5
	PXOR X6, X6
	PXOR X7, X7

	// Eight chains: a round of each has ended when its next one begins.
next:
	MOVOU  0(SI), X8
	MOVOU  16(SI), X9
	MOVOU  32(SI), X10
	MOVOU  48(SI), X11
	MOVOU  64(SI), X12
	MOVOU  80(SI), X13
	MOVOU  96(SI), X14
	MOVOU  112(SI), X15
	AESENC X8, X0
	AESENC X9, X1
	AESENC X10, X2
	AESENC X11, X3
	AESENC X12, X4
	AESENC X13, X5
	AESENC X14, X6
	AESENC X15, X7
	ADDQ   $128, SI
	SUBQ   $128, CX
	JNZ    next

	// The chains become one, and each of its bits comes to depend on all of them.
	AESENC X1, X0
	AESENC X2, X0
	AESENC X3, X0
	AESENC X4, X0
	AESENC X5, X0
	AESENC X6, X0
	AESENC X7, X0
	PXOR   X15, X15 // Go's code expects zero there
	AESENC X15, X0
	AESENC X15, X0
	AESENC X15, X0
	MOVQ   X0, ret+24(FP)
	RET

// func wideAESDigest(b []byte) uint64
TEXT ·wideAESDigest(SB), NOSPLIT, $0-32
	MOVQ  b_base+0(FP), SI
	MOVQ  b_len+8(FP), CX
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1
	VPXOR Y2, Y2, Y2
	VPXOR Y3, Y3, Y3
	VPXOR Y4, Y4, Y4
	VPXOR Y5, Y5, Y5
	VPXOR Y6, Y6, Y6
	VPXOR Y7, Y7, Y7
	SUBQ  $256, CX
	JL    half

	// Eight chains of two: a round of each has ended when its next one begins.
next:
	VAESENC 0(SI), Y0, Y0
	VAESENC 32(SI), Y1, Y1
	VAESENC 64(SI), Y2, Y2
	VAESENC 96(SI), Y3, Y3
	VAESENC 128(SI), Y4, Y4
	VAESENC 160(SI), Y5, Y5
	VAESENC 192(SI), Y6, Y6
	VAESENC 224(SI), Y7, Y7
	ADDQ    $256, SI
	SUBQ    $256, CX
	JGE     next

half:
	ADDQ    $256, CX
	JZ      join
	VAESENC 0(SI), Y0, Y0
	VAESENC 32(SI), Y1, Y1
	VAESENC 64(SI), Y2, Y2
	VAESENC 96(SI), Y3, Y3

	// The chains become one, and each of its bits comes to depend on all of them.
join:
	VAESENC      Y1, Y0, Y0
	VAESENC      Y2, Y0, Y0
	VAESENC      Y3, Y0, Y0
	VAESENC      Y4, Y0, Y0
	VAESENC      Y5, Y0, Y0
	VAESENC      Y6, Y0, Y0
	VAESENC      Y7, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VZEROUPPER
	AESENC       X1, X0
	PXOR         X15, X15                // Go's code expects zero there
	AESENC       X15, X0
	AESENC       X15, X0
	AESENC       X15, X0
	MOVQ         X0, ret+24(FP)
	RET

// func extended() uint32
TEXT ·extended(SB), NOSPLIT, $0-4
	MOVL $7, AX
	XORL CX, CX
	CPUID
	MOVL CX, ret+0(FP)
	RET
