/* The function of bcryptprimitives.dll that Rust asks for the seed of its hash maps. Windows has the library, Wine 8 does not. */

#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T length)
{
    return RtlGenRandom(bytes, (ULONG)length);
}
