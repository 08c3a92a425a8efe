//! Finds the SQLite library that a program uses.
//!
//! `RTLD_NEXT` is not enough. SQLite can be a dependency of a module loaded with `RTLD_LOCAL`, as in Python,
//! and a process can load several SQLite libraries. The right library is the one that the caller would have
//! called without our library.

use std::ffi::{CStr, CString, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr;

/// Returns the function `name` that the code at `caller` would call without this library. Returns null if no
/// library provides the function, or if `caller` is null and several libraries provide the function.
pub fn function(name: &CStr, caller: *const c_void) -> *mut c_void {
    if !caller.is_null()
        && let Some(found) = in_module(module_at(caller), name)
    {
        return found;
    }
    // SAFETY: both are valid handles for dlsym, and the name is a string.
    let known = unsafe {
        [libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()), libc::dlsym(libc::RTLD_NEXT, name.as_ptr())]
    };
    known.into_iter().find(|found| is_theirs(*found)).unwrap_or_else(|| in_any_module(name))
}

/// Returns the base address and path of the module that contains an address.
fn module_at(address: *const c_void) -> Option<(usize, *const libc::c_char)> {
    // SAFETY: the structure is filled if the call succeeds; its strings live as long as the module.
    unsafe {
        let mut info = std::mem::zeroed::<libc::Dl_info>();
        let found = libc::dladdr(address, &raw mut info) != 0;
        found.then_some((info.dli_fbase.addr(), info.dli_fname))
    }
}

/// Returns the path of the module that contains an address, as the linker knows it.
pub fn path_of(address: *const c_void) -> Option<PathBuf> {
    let (_, path) = module_at(address)?;
    // SAFETY: the path is a string owned by the linker.
    (!path.is_null()).then(|| OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()).into())
}

/// Keeps the module that contains an address loaded until the process ends, even after dlclose(3).
pub fn keep(address: *const c_void) {
    if let Some((_, path)) = module_at(address) {
        // SAFETY: the path is a string owned by the linker, and the module is loaded already. The handle is
        // never closed. The call fails only for the program itself, which is never unloaded.
        unsafe { libc::dlopen(path, libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE) };
    }
}

fn is_theirs(found: *mut c_void) -> bool {
    let ours = module_at(function as *const c_void).map(|(base, _)| base);
    !found.is_null() && module_at(found).map(|(base, _)| base) != ours
}

/// Looks up the function in a module and, as the linker does, in the libraries that the module needs.
fn in_module(module: Option<(usize, *const libc::c_char)>, name: &CStr) -> Option<*mut c_void> {
    let (_, path) = module?;
    // SAFETY: the path is a string owned by the linker. The module is loaded, so closing the handle unloads
    // nothing. The program itself cannot be opened by its path.
    unsafe {
        let handle = libc::dlopen(path, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if handle.is_null() {
            return None;
        }
        let found = libc::dlsym(handle, name.as_ptr());
        libc::dlclose(handle);
        is_theirs(found).then_some(found)
    }
}

/// Looks up the function if exactly one loaded module provides it.
fn in_any_module(name: &CStr) -> *mut c_void {
    unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _: usize, into: *mut c_void) -> c_int {
        // SAFETY: the linker passes a valid structure, and `into` is the vector below.
        unsafe {
            let path = (*info).dlpi_name;
            if !path.is_null() {
                (*into.cast::<Vec<CString>>()).push(CStr::from_ptr(path).to_owned());
            }
        }
        0
    }
    let mut paths: Vec<CString> = Vec::new();
    // SAFETY: the callback's type matches the vector.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut paths).cast()) };
    let mut found: Vec<*mut c_void> = paths
        .iter()
        .filter(|path| !path.is_empty())
        .filter_map(|path| in_module(Some((0, path.as_ptr())), name))
        .collect();
    found.sort();
    found.dedup();
    if let [only] = found[..] { only } else { ptr::null_mut() }
}
