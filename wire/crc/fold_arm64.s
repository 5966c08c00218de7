// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "go_asm.h"
#include "textflag.h"

// FOLD moves acc forward by what the constants k say, onto what is there.
#define FOLD(k, there, acc, t) \
	VPMULL  k.D1, acc.D1, t.Q1      \
	VPMULL2 k.D2, acc.D2, acc.Q1    \
	VEOR    there.B16, t.B16, t.B16 \
	VEOR    t.B16, acc.B16, acc.B16

// CHAINS takes each of the three chains 16 bytes on: the CRCs in R14, R15 and R22 over what R4, R5 and
// R6 point at. crc8 is the instruction for 8 bytes.
#define CHAINS(crc8) \
	LDP.P 16(R4), (R8, R9)   \
	LDP.P 16(R5), (R10, R11) \
	LDP.P 16(R6), (R12, R13) \
	crc8  R8, R14            \
	crc8  R10, R15           \
	crc8  R12, R22           \
	crc8  R9, R14            \
	crc8  R11, R15           \
	crc8  R13, R22

// RUN is the body of the functions below.
#define RUN(crc8) \
	MOVD    table+0(FP), R0              \
	MOVWU   state+8(FP), R1              \
	MOVD    data+16(FP), R2              \
	MOVD    rounds+24(FP), R3            \
	ADD     R3<<1, R3, R7                \ // three chains of 16 bytes a round, behind 96 a round
	ADD     R7<<5, R2, R4                \
	ADD     R3<<4, R4, R5                \
	ADD     R3<<4, R5, R6                \
	ADD     $foldTable_to, R0, R8        \ // what moves by 16, 32 and 48 bytes a round
	MOVWU   (R8)(R3<<2), R19             \
	ADD     R3<<2, R8, R9                \
	MOVWU   (R9)(R3<<2), R20             \
	MOVWU   (R8)(R7<<2), R21             \
	FMOVQ   foldTable_by96(R0), F20      \
	FMOVS   R1, F12                      \ // the state adds to the first four bytes
	FLDPQ   32(R2), (F2, F3)             \
	FLDPQ   64(R2), (F4, F5)             \
	FLDPQ.P 96(R2), (F0, F1)             \
	VEOR    V12.B16, V0.B16, V0.B16      \
	MOVD    ZR, R14                      \
	MOVD    ZR, R15                      \
	MOVD    ZR, R22                      \
	CHAINS(crc8)                         \
	SUBS    $1, R3                       \
	BEQ     join                         \
next:                                    \
	FLDPQ   32(R2), (F8, F9)             \
	FLDPQ   64(R2), (F10, F11)           \
	FLDPQ.P 96(R2), (F6, F7)             \
	FOLD(V20, V6, V0, V12)               \
	FOLD(V20, V7, V1, V13)               \
	FOLD(V20, V8, V2, V14)               \
	FOLD(V20, V9, V3, V15)               \
	FOLD(V20, V10, V4, V16)              \
	FOLD(V20, V11, V5, V17)              \
	CHAINS(crc8)                         \
	SUBS    $1, R3                       \
	BNE     next                         \
join:                                    \ // six blocks of 16 bytes become three, then one, then a CRC
	FMOVQ   foldTable_by48(R0), F20      \
	FMOVQ   foldTable_by32(R0), F21      \
	FMOVQ   foldTable_by16(R0), F22      \
	FOLD(V20, V3, V0, V12)               \
	FOLD(V20, V4, V1, V13)               \
	FOLD(V20, V5, V2, V14)               \
	FOLD(V21, V2, V0, V12)               \
	FOLD(V22, V0, V1, V13)               \
	VMOV    V1.D[0], R8                  \
	VMOV    V1.D[1], R9                  \
	MOVD    ZR, R10                      \
	crc8    R8, R10                      \
	crc8    R9, R10                      \
	FMOVS   R10, F0                      \ // it and the first two chains' move to the end
	FMOVS   R14, F1                      \
	FMOVS   R15, F2                      \
	FMOVS   R21, F3                      \
	FMOVS   R20, F4                      \
	FMOVS   R19, F5                      \
	VPMULL  V3.D1, V0.D1, V0.Q1          \
	VPMULL  V4.D1, V1.D1, V1.Q1          \
	VPMULL  V5.D1, V2.D1, V2.Q1          \
	VEOR    V1.B16, V0.B16, V0.B16       \
	VEOR    V2.B16, V0.B16, V0.B16       \
	VMOV    V0.D[0], R8                  \
	MOVD    ZR, R10                      \
	crc8    R8, R10                      \
	EORW    R22, R10, R10                \
	MOVW    R10, ret+32(FP)              \
	RET

// func foldIEEE(table *foldTable, state uint32, data *byte, rounds int) uint32
TEXT ·foldIEEE(SB), NOSPLIT, $0-36
	RUN(CRC32X)

// func foldCastagnoli(table *foldTable, state uint32, data *byte, rounds int) uint32
TEXT ·foldCastagnoli(SB), NOSPLIT, $0-36
	RUN(CRC32CX)
