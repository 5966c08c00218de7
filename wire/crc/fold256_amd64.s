// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "go_asm.h"
#include "textflag.h"

// The same as in fold512_amd64.s for processors whose registers have 256 bits: a block of 64
// bytes is a pair of registers. Only AVX2 and VPCLMULQDQ in its VEX encoding.

// FOLD moves acc forward by what the constants k say, onto what is there.
#define FOLD(k, there, acc, t) \
	VPCLMULQDQ $0x00, k, acc, t   \
	VPCLMULQDQ $0x11, k, acc, acc \
	VPXOR      there, acc, acc    \
	VPXOR      t, acc, acc

// JOIN folds the four blocks in Y0 to Y7 onto one, Y0 and Y1.
#define JOIN(table) \
	VBROADCASTI128 foldTable_by192(table), Y12 \
	VBROADCASTI128 foldTable_by128(table), Y13 \
	FOLD(Y12, Y6, Y0, Y8)                      \
	FOLD(Y12, Y7, Y1, Y9)                      \
	FOLD(Y13, Y0, Y2, Y10)                     \
	FOLD(Y13, Y1, Y3, Y11)                     \
	FOLD(Y14, Y2, Y4, Y8)                      \
	FOLD(Y14, Y3, Y5, Y9)                      \
	VMOVDQA Y4, Y0                             \
	VMOVDQA Y5, Y1

// REDUCE makes the CRC of Y0 and Y1: first 512 bits become 96, times x^32; then these become
// 32 as Barrett does, taking off P times the quotient of the upper 64, which are the lower
// half of the register. SSE instructions are slow while upper halves are in use, and so are
// task switches.
#define REDUCE(table, crc) \
	VMOVDQU      foldTable_lanes(table), Y2    \
	VMOVDQU      foldTable_lanes+32(table), Y3 \
	VPCLMULQDQ   $0x00, Y2, Y0, Y4             \
	VPCLMULQDQ   $0x11, Y2, Y0, Y0             \
	VPCLMULQDQ   $0x00, Y3, Y1, Y5             \
	VPCLMULQDQ   $0x11, Y3, Y1, Y1             \
	VPXOR        Y4, Y0, Y0                    \
	VPXOR        Y5, Y1, Y1                    \
	VPXOR        Y1, Y0, Y0                    \
	VEXTRACTI128 $1, Y0, X1                    \
	VPXOR        X1, X0, X0                    \
	VMOVDQU      foldTable_barrett(table), X1  \
	VPCLMULQDQ   $0x00, X1, X0, X2             \
	VPCLMULQDQ   $0x10, X1, X2, X2             \
	VPXOR        X2, X0, X0                    \
	VPEXTRD      $2, X0, crc                   \
	NOTL         crc                           \
	VZEROUPPER

// PART leaves of the 64 bytes in low and high the first n, from 1 to 63, and loads the constants k
// that move a block by n bytes. n becomes 16n.
#define PART(table, n, low, high, k, t) \
	LEAQ           ·firstBytes+64(SB), t         \
	SUBQ           n, t                          \
	VPAND          (t), low, low                 \
	VPAND          32(t), high, high             \
	SHLQ           $4, n                         \
	VBROADCASTI128 foldTable_by(table)(n*1), k

// func fold256(table *foldTable, state uint32, data []byte) uint32
TEXT ·fold256(SB), NOSPLIT, $0-44
	MOVQ           table+0(FP), DX
	MOVL           state+8(FP), AX
	MOVQ           data_base+16(FP), SI
	MOVQ           data_len+24(FP), CX
	VBROADCASTI128 foldTable_by64(DX), Y14
	NOTL           AX
	VMOVD          AX, X2
	VMOVDQU        (SI), Y0
	VMOVDQU        32(SI), Y1
	MOVQ           CX, R8
	ANDQ           $63, R8
	JZ             whole

	// The message is cut behind its first 1 to 63 bytes, so that only whole blocks follow, and
	// these are a block that moves by as many.
	ADDQ R8, SI
	SUBQ R8, CX
	PART(DX, R8, Y0, Y1, Y15, BX)
	VPXOR Y2, Y0, Y0
	FOLD(Y15, (SI), Y0, Y8)
	FOLD(Y15, 32(SI), Y1, Y9)
	JMP  blocks

whole:
	VPXOR Y2, Y0, Y0 // the state adds to the first four bytes

blocks:
	CMPQ CX, $256
	JB   advance

	// Eight chains at a time: some are still in the multiplier when the next starts.
	VMOVDQU        64(SI), Y2
	VMOVDQU        96(SI), Y3
	VMOVDQU        128(SI), Y4
	VMOVDQU        160(SI), Y5
	VMOVDQU        192(SI), Y6
	VMOVDQU        224(SI), Y7
	VBROADCASTI128 foldTable_by256(DX), Y15

next:
	ADDQ $256, SI
	SUBQ $256, CX
	CMPQ CX, $256
	JB   join
	FOLD(Y15, 0(SI), Y0, Y8)
	FOLD(Y15, 32(SI), Y1, Y9)
	FOLD(Y15, 64(SI), Y2, Y10)
	FOLD(Y15, 96(SI), Y3, Y11)
	FOLD(Y15, 128(SI), Y4, Y8)
	FOLD(Y15, 160(SI), Y5, Y9)
	FOLD(Y15, 192(SI), Y6, Y10)
	FOLD(Y15, 224(SI), Y7, Y11)
	JMP  next

join:
	JOIN(DX)
	JMP single

advance:
	ADDQ $64, SI
	SUBQ $64, CX

single:
	TESTQ CX, CX
	JZ    reduce
	FOLD(Y14, 0(SI), Y0, Y8)
	FOLD(Y14, 32(SI), Y1, Y9)
	JMP   advance

reduce:
	REDUCE(DX, AX)
	MOVL AX, ret+40(FP)
	RET

// PASS copies 32 bytes and folds acc onto them.
#define PASS(k, off, acc, t, block) \
	VMOVDQU off(SI), block \
	VMOVDQU block, off(DI) \
	FOLD(k, block, acc, t)

// func copyFold256(table *foldTable, state uint32, dst *byte, src []byte) uint32
TEXT ·copyFold256(SB), NOSPLIT, $0-52
	MOVQ           table+0(FP), DX
	MOVL           state+8(FP), AX
	MOVQ           dst+16(FP), DI
	MOVQ           src_base+24(FP), SI
	MOVQ           src_len+32(FP), CX
	VBROADCASTI128 foldTable_by64(DX), Y14
	NOTL           AX
	VMOVD          AX, X2
	VMOVDQU        (SI), Y0
	VMOVDQU        32(SI), Y1
	VMOVDQU        Y0, (DI)
	VMOVDQU        Y1, 32(DI)
	MOVQ           CX, R8
	ANDQ           $63, R8
	JZ             whole

	// As above. What of the 64 bytes is behind the cut is read again, and stored as read now.
	ADDQ    R8, SI
	ADDQ    R8, DI
	SUBQ    R8, CX
	VMOVDQU (SI), Y10
	VMOVDQU 32(SI), Y11
	VMOVDQU Y10, (DI)
	VMOVDQU Y11, 32(DI)
	PART(DX, R8, Y0, Y1, Y15, BX)
	VPXOR   Y2, Y0, Y0
	FOLD(Y15, Y10, Y0, Y8)
	FOLD(Y15, Y11, Y1, Y9)
	JMP     blocks

whole:
	VPXOR Y2, Y0, Y0

blocks:
	CMPQ           CX, $256
	JB             advance
	VMOVDQU        64(SI), Y2
	VMOVDQU        Y2, 64(DI)
	VMOVDQU        96(SI), Y3
	VMOVDQU        Y3, 96(DI)
	VMOVDQU        128(SI), Y4
	VMOVDQU        Y4, 128(DI)
	VMOVDQU        160(SI), Y5
	VMOVDQU        Y5, 160(DI)
	VMOVDQU        192(SI), Y6
	VMOVDQU        Y6, 192(DI)
	VMOVDQU        224(SI), Y7
	VMOVDQU        Y7, 224(DI)
	VBROADCASTI128 foldTable_by256(DX), Y15

next:
	ADDQ $256, SI
	ADDQ $256, DI
	SUBQ $256, CX
	CMPQ CX, $256
	JB   join
	PASS(Y15, 0, Y0, Y8, Y12)
	PASS(Y15, 32, Y1, Y9, Y13)
	PASS(Y15, 64, Y2, Y10, Y12)
	PASS(Y15, 96, Y3, Y11, Y13)
	PASS(Y15, 128, Y4, Y8, Y12)
	PASS(Y15, 160, Y5, Y9, Y13)
	PASS(Y15, 192, Y6, Y10, Y12)
	PASS(Y15, 224, Y7, Y11, Y13)
	JMP  next

join:
	JOIN(DX)
	JMP single

advance:
	ADDQ $64, SI
	ADDQ $64, DI
	SUBQ $64, CX

single:
	TESTQ CX, CX
	JZ    reduce
	PASS(Y14, 0, Y0, Y8, Y12)
	PASS(Y14, 32, Y1, Y9, Y13)
	JMP   advance

reduce:
	REDUCE(DX, AX)
	MOVL AX, ret+48(FP)
	RET
